"""Names of models as people paste them: page addresses of the Hub, trailing slashes. Pure text."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from core.errors import UsageProblem

_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
_SCHEMES = ("https://", "http://")
_OTHER_KINDS = {"datasets": "a dataset", "spaces": "a Space"}
_HINT = "Name a model as on the Hub: org/name, or org/name@revision."


def plain_name(text: str) -> str:
    """Return a pasted model name without web address and trailing slashes.

    `https://huggingface.co/org/name/tree/v2` becomes `org/name@v2`. Text that is neither an address
    nor ends in a slash is returned as it is; whether it names anything is for the caller to find
    out.

    Raises:
        UsageProblem: the address belongs to another site, or to something other than a model.
    """
    name = repository_name(text)
    kind = _OTHER_KINDS.get(name.partition("/")[0])
    if kind and name != text.rstrip("/"):
        raise UsageProblem(f"{text[:100]!r} is {kind}, not a model.", hint=_HINT)
    return name


def repository_name(text: str) -> str:
    """Return a pasted repository name, as `plain_name`; a dataset's is `datasets/org/name`.

    Raises:
        UsageProblem: the address belongs to another site, or is not that of a repository.
    """
    address = _address(text.strip())
    if address is None:
        return text if "@" in text else text.rstrip("/") or text
    host, _, path = address.partition("/")
    if host.lower() not in _HOSTS:
        raise UsageProblem(
            f"{text[:100]!r} is not an address on the Hugging Face Hub.",
            hint=f"{_HINT} For another Hub, set HF_ENDPOINT.",
        )
    parts = [unquote(part) for part in path.split("/") if part]
    words = 3 if parts[:1] and parts[0] in _OTHER_KINDS else 2
    name, rest = "/".join(parts[:words]), parts[words:]
    if len(parts) < words or (rest and (rest[0] != "tree" or len(rest) < 2)):
        raise UsageProblem(f"{text[:100]!r} is not the address of a model.", hint=_HINT)
    return name if not rest or rest[1:] == ["main"] else f"{name}@{'/'.join(rest[1:])}"


def _address(text: str) -> str | None:
    """Return host and path of a web address, or None if the text is not one."""
    if text.lower().startswith(_SCHEMES):
        try:
            split = urlsplit(text)
            return f"{split.hostname or ''}{split.path}"
        except ValueError:  # such as an unclosed bracket in the host
            return ""
    if text.lower().startswith(tuple(f"{host}/" for host in _HOSTS)):
        return text.partition("?")[0].partition("#")[0]
    return None
