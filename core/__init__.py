"""The house of mlxbun: everything the commands do, without a terminal and without a server."""
