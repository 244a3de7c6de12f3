"""`mlxbun memory`: the personal wiki at the shell."""
