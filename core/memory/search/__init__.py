"""Search in the vault: words of any script, ranked, and as fresh as the files.

`tokens` cuts texts into words, `query` reads what a person types, `document` what an article says,
`files` looks at the disk, `store` keeps the SQLite file, `index` puts them together.
"""
