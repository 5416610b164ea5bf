"""Commands about the files of a program: profiles and plans."""
