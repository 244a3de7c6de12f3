"""`python -m mlxbun_cli` is `mlxbun`."""

from mlxbun_cli.main import main

main()
