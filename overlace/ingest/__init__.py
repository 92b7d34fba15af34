"""Every source yields EVENT; numbering, folding, grouping and reduction happen once, after that."""
