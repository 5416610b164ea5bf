"""pgmo inside of training frameworks: one file for each."""
