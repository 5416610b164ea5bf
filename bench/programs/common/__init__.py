"""What the programs have in common: arguments, texts, small models, settings of trainers."""
