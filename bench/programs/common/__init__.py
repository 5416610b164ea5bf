"""Code that the programs share: arguments, texts, small models, settings of trainers."""
