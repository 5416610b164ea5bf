"""Will it fit? What a job needs, on which card it runs, and what would make it fit."""
