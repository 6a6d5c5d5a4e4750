"""The pieces that releases are made of, each with its proof."""
