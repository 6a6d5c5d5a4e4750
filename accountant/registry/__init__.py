"""One data set's record for the OpenDP Differential Privacy Deployments Registry."""
