"""The README as a package index shows it, where relative links lead nowhere."""

import re

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")


def readme_for_index(text: str, repository: str) -> str:
    """Makes links and images absolute; without a repository their text stays.

    Args:
        text: the README.
        repository: where the sources can be read, such as "https://example.org/pgmo"; "" for
            nowhere. Files are at `/blob/HEAD/PATH` and `/raw/HEAD/PATH` below it, as GitHub,
            GitLab and Gitea have them.

    Example:
        >>> readme_for_index("[one](docs/a.md) ![two](b.png)", "https://example.org/p")
        '[one](https://example.org/p/blob/HEAD/docs/a.md) ![two](https://example.org/p/raw/HEAD/b.png)'
        >>> readme_for_index("[one](docs/a.md) ![two](b.png) [three](#use)", "")
        'one *two* [three](#use)'
    """

    def absolute(found: re.Match[str]) -> str:
        image, label, path = found.groups()
        if not repository:
            return f"*{label}*" if image else label
        kind = "raw" if image else "blob"
        return f"{image}[{label}]({repository}/{kind}/HEAD/{path})"

    return _LINK.sub(absolute, text)


def project_urls(repository: str) -> dict[str, str]:
    """What the metadata names; nothing without a repository.

    Example:
        >>> project_urls("https://example.org/p")["Changelog"]
        'https://example.org/p/blob/HEAD/CHANGELOG.md'
    """
    if not repository:
        return {}
    return {
        "Source": repository,
        "Documentation": f"{repository}/blob/HEAD/docs/index.md",
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
    }
