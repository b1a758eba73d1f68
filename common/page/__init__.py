"""Code that all HTML pages share: the style sheet, and functions that escape their text."""
