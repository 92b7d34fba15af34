"""What files are, which column is what, what is missing, and the command to type; without a JVM."""
