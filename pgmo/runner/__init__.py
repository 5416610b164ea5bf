"""`pgmo run`: runs an unmodified training script, with sessions around its iterations."""
