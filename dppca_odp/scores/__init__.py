"""Score pictures: a private frame, histograms on it, and points drawn from them."""
