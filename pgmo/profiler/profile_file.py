"""`*.pgmoprof` files: a profile as a sealed archive of columns (DESIGN section 7)."""

import os
from dataclasses import fields

from pgmo.archive import read, write
from pgmo.archive_fields import Fields, refuse
from pgmo.errors import FileError, ProfileError
from pgmo.profiler.profile import COLUMNS, MAX_TICKS, Profile, ProfileMeta, Tag

FORMAT = "pgmoprof"
FORMAT_VERSION = 2
_SINCE = {"shared": 2}  # the format version that brought a column
_TEXTS = tuple(item.name for item in fields(ProfileMeta) if item.name != "notes")


def write_profile(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Writes a profile; an existing file is replaced in one step.

    Raises:
        FileError: when the folder or the file cannot be written.

    Example:
        >>> import tempfile
        >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_profile(profile, f"{folder}/a.pgmoprof")
        ...     len(read_profile(f"{folder}/a.pgmoprof"))
        1
    """
    own = {
        "ticks": profile.ticks,
        "circular": profile.circular,
        "steady": profile.steady,
        "tags": [[tag.module, tag.op, tag.phase] for tag in profile.tags],
        "meta": meta_to_json(profile.meta),
    }
    columns = {name: getattr(profile, name) for name in COLUMNS}
    write(path, FORMAT, FORMAT_VERSION, columns, own)


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Reads a profile back and checks everything about it first.

    Raises:
        FileError: when the file is truncated, altered, newer, or its content contradicts itself.

    Example:
        >>> try:
        ...     read_profile("/no/such/file.pgmoprof")
        ... except FileError as error:
        ...     print(error)
        /no/such/file.pgmoprof: cannot be read (No such file or directory); check the path
    """
    archive = read(path, FORMAT, FORMAT_VERSION, COLUMNS, _SINCE)
    own = Fields(archive.path, archive.fields)
    own.only("ticks", "circular", "steady", "tags", "meta")
    ticks = own.integer("ticks", 0, MAX_TICKS)
    # What is computed over ticks costs memory for each, so a lying count must not cost more
    # than the file does.
    if ticks > 1024 * (archive.rows + 1024):
        refuse(archive.path, f"declares {ticks} ticks for {archive.rows} blocks")
    try:
        return Profile(
            **archive.columns,
            ticks=ticks,
            circular=own.flag("circular"),
            steady=own.flag("steady"),
            tags=tuple(Tag(*row) for row in own.rows("tags", 3)),
            meta=meta_from_json(own.inner("meta")),
        )
    except ProfileError as error:
        raise FileError(f"{archive.path}: {error}; record it again") from error


def meta_to_json(meta: ProfileMeta) -> dict[str, object]:
    """The JSON form of the metadata, shared by both file formats.

    Example:
        >>> meta_to_json(ProfileMeta(device="cpu"))["device"]
        'cpu'
    """
    texts: dict[str, object] = {name: str(getattr(meta, name)) for name in _TEXTS}
    return {**texts, "notes": {str(key): str(value) for key, value in meta.notes.items()}}


def meta_from_json(own: Fields) -> ProfileMeta:
    """Reads what `meta_to_json` wrote.

    Raises:
        FileError: when a field is missing, not known or no string.

    Example:
        >>> from pathlib import Path
        >>> meta = ProfileMeta(device="cpu")
        >>> meta_from_json(Fields(Path("a.pgmoprof"), meta_to_json(meta))) == meta
        True
    """
    own.only(*_TEXTS, "notes")
    return ProfileMeta(**{name: own.text(name) for name in _TEXTS}, notes=own.texts("notes"))
