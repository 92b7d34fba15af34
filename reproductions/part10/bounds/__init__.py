"""How little traffic channels could cost at least: bounds by pairs of combinations and by channels."""
