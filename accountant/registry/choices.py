"""What a record chooses from. The script offers these without importing the form."""

from enum import StrEnum


class ProductType(StrEnum):
    """What a data product can be."""

    STATISTICS = "Summary statistics"
    MODEL = "Machine learning model"
    DATA = "Dataset"
    SYNTHETIC = "Synthetic data"
    API = "Interactive API"
    SQL = "SQL queries"


class Sector(StrEnum):
    """What a data product can be about."""

    TECHNOLOGY = "Technology"
    HEALTHCARE = "Healthcare"
    EDUCATION = "Education"
    GOVERNMENT = "Government"
    ENERGY = "Energy"
    FINANCE = "Finance"
