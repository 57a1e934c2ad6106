"""Folders, zip and tar files of images.

A folder's name is the class, ``train/`` and ``val/`` above it the split. The same applies to paths
in an archive; its members are read in place, never unpacked to disk, and a member with a declared
size above ``MAX_MEMBER_NBYTES`` is rejected.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from tensorlake.dataset import IMAGE_ENDINGS, Dataset, SkippedItem
from tensorlake.errors import InvalidInputError, MissingTensorError
from tensorlake.ingest.engine.found_files import full_place, source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source, given_settings, no_rows
from tensorlake.ingest.engine.source_files import SourceFiles, is_url, unreadable_file
from tensorlake.ingest.tables.sidecar import Sidecar, read_sidecar
from tensorlake.ingest.vision.archives import Archive, open_archive
from tensorlake.ingest.vision.folder_facts import (
    FoundFile,
    facts_of_folders,
    facts_of_names,
    facts_of_table,
    name_of,
)
from tensorlake.ingest.vision.folder_scan import (
    GIF,
    IMAGES,
    FileKind,
    NamePattern,
    ending_of,
    outer_folders,
)
from tensorlake.quantities import plural
from tensorlake.storage import public_url
from tensorlake.types import Link, SampleType, as_type
from tensorlake.types import Sequence as FrameSequence

__all__ = ["found_files", "images", "ingest_files"]

MAX_MEMBER_NBYTES = 1 << 30
_FOREIGN = "is an image of an unsupported format"


@shows_options
def images(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    labels: Any = True,
    pattern: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a folder, a zip or a tar file of images, stored without re-encoding.

    Makes ``image``; ``label`` if the files are in folders, whose names are the classes; ``split``
    when those lie in ``train/``, ``val/`` or ``test/``. A folder that holds all others of an
    archive is passed over. Rows are in the order of the paths. Files
    of one kind make ``tl.Image("jpeg")`` and the like, of several kinds ``tl.Image("any")``;
    ``schema`` may say another, such as ``{"image": tl.Image("any", mode="RGBA")}``, or
    ``{"image": tl.Sequence(tl.Image("png"))}`` for the frames of GIF and the pages of TIFF files.

    Args:
        src: The folder or the archive, or the URL of one in a store.
        dst: Path or URL of the dataset.
        schema: Types by tensor name; they override the inferred ones.
        labels: Whether folders are classes; an image outside them is then an error, or left out.
            Or a table with a row per file, in place of folders: a CSV, JSON or JSON lines file, a
            DataFrame, a list of rows. Its column ``file`` has the paths below the folder, the
            others become tensors.
        pattern: A pattern of the files' names, whose fields become tensors in place of folders:
            ``"{label}_{id}.jpg"`` makes the classes ``label``, and the text ``id``.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There are no images, one is outside the folders of the others, or one is
            damaged; the message names the file.

    Example:
        >>> from pathlib import Path
        >>> import PIL.Image
        >>> import tensorlake as tl
        >>> for name in ("cat", "dog"):
        ...     Path("photos", name).mkdir(parents=True)
        ...     PIL.Image.new("RGB", (8, 6)).save(f"photos/{name}/1.jpg")
        >>> ds = tl.ingest.images("photos", "memory://doc-images")
        >>> ds["label"].names, ds[0]["image"].shape
        (('cat', 'dog'), (6, 8, 3))
    """
    return ingest_files(IMAGES, src, dst, schema, labels, pattern, options)


def ingest_files(
    kind: FileKind,
    src: str | PathLike[str],
    dst: str | PathLike[str],
    schema: Mapping[str, Any] | None,
    labels: Any,
    pattern: str | None,
    options: IngestOptions,
    *,
    table: Any = None,
    **settings: Any,
) -> Dataset:
    """Ingest the files of one kind of a folder or a zip file, a row each.

    Args:
        kind: The kind of files.
        src: The folder or the zip file.
        dst: Path or URL of the dataset.
        schema: Types by tensor name.
        labels: Whether folders are classes; or a table, as ``table``.
        pattern: A pattern of names.
        options: See `IngestOptions`.
        table: A table with a row per file (`tables/sidecar.py`), in place of folders and names.
        **settings: Other arguments of the call that determine the rows.
    """
    files = SourceFiles(options.get("storage_options"))
    is_strict = options.get("on_error", "raise") == "raise"
    names = None if pattern is None else NamePattern(pattern)
    given = {"table=": table, "pattern=": names}
    if labels is None:
        message = "labels= is True, False or a table, got None"
        raise InvalidInputError(f"{message}\nwithout labels: labels=False", argument="labels")
    if not isinstance(labels, bool):
        given["labels="], table, labels = labels, labels, True
    both = [name for name, one in given.items() if one is not None]
    if len(both) > 1:
        message = f"{' and '.join(both)} both name the tensors beside the files"
        raise InvalidInputError(f"{message}\ngive one", argument=both[0].rstrip("="))
    sidecar = None
    if table is not None:
        others = {name: one for name, one in (schema or {}).items() if name != kind.tensor}
        sidecar = read_sidecar(table, others, options.get("storage_options"))
    source = _source(
        *(kind, source_path(src), files, schema),
        labels=labels,
        names=names,
        sidecar=sidecar,
        is_strict=is_strict,
    )
    source = replace(source, settings={**source.settings, **settings})
    try:
        return run_ingest(source, dst, **options)
    except MissingTensorError as error:
        if error.facts.get("tensor") not in {"label", "split"} - source.schema.keys():
            raise
        raise MissingTensorError(
            f"{error.message.splitlines()[0]}\n{error.facts['tensor']!r} is the name of a folder"
            f" that {kind.name} lie in, and none is below {public_url(str(src))!r}: give a folder"
            " that holds such folders",
            **error.facts,
        ) from error


def _source(
    kind: FileKind,
    folder: str,
    files: SourceFiles,
    schema: Mapping[str, Any] | None,
    *,
    labels: bool,
    names: NamePattern | None,
    sidecar: Sidecar | None,
    is_strict: bool,
) -> Source[FoundFile]:
    left_out: list[SkippedItem] = []
    found, archive = found_files(kind, folder, files, None if is_strict else left_out)
    shown = public_url(folder)
    images = sorted(found, key=itemgetter(0))
    if archive is not None:
        images = _without_outer(images)
    if not images:
        seen = ", ".join(IMAGE_ENDINGS if kind is IMAGES else sorted(kind.endings or ("any",)))
        others = "" if kind is IMAGES else "; for others: ending='.md', or '' for all files"
        message = f"no {kind.name} in {shown!r}\nsupported suffixes: {seen}{others}"
        raise InvalidInputError(message, src=shown)
    has_frames = isinstance(as_type((schema or {}).get(kind.tensor, "int64")), FrameSequence)
    foreign = [p for p in images if not kind.stores(p.path, has_frames=has_frames)]
    if foreign:
        images = [p for p in images if kind.stores(p.path, has_frames=has_frames)]
        if is_strict or not images:
            raise _is_foreign(foreign, shown)
    if sidecar is not None:
        facts = facts_of_table(images, shown, sidecar, left_out, is_strict=is_strict)
    elif names is not None:
        facts = facts_of_names(images, shown, names, schema or {}, is_strict=is_strict)
    else:
        facts = facts_of_folders(images, shown, kind, labels=labels, is_strict=is_strict)
    images = facts.images
    read_local = files.reader(folder)

    def read(batch: Sequence[FoundFile]) -> Sequence[Any]:
        paths, sizes = [p.path for p in batch], [p.nbytes for p in batch]
        return read_local(paths, sizes) if archive is None else archive.read(paths)

    own = None
    if kind.tensor not in (schema or {}):
        own = _type_in(kind, images, read, is_strict=is_strict)
    types = {kind.tensor: own or kind.type_of(p.path for p in images), **facts.types}
    by_folder = names is None and sidecar is None
    layers = [name.replace("label", "class") for name in facts.types] if by_folder else []
    if kind.tensor in facts.types:
        what = "a field of a pattern" if sidecar is None else f"a column of {sidecar.shown}"
        message = f"{what} cannot be {kind.tensor!r}, the tensor of the files"
        raise InvalidInputError(f"{message}\ngive it another name", actual=kind.tensor)
    unknown = [name for name in schema or {} if name not in types]
    if unknown:
        made = f"these {kind.name} make {', '.join(types)}"
        message = f"schema names unknown tensors {unknown}; {made}"
        raise InvalidInputError(message, src=shown, expected=[*types])

    is_linked = isinstance(as_type((schema or {}).get(kind.tensor, "int64")), Link)
    if is_linked and archive is not None:
        raise InvalidInputError(
            f"files in {shown!r} cannot be linked: they are members of an archive"
            "\nunpack it and pass the folder, or store them: leave tl.Link out of the schema",
            src=shown,
        )

    def load(batch: Sequence[FoundFile]) -> dict[str, Any]:
        contents = [_address(p.path) for p in batch] if is_linked else read(batch)
        if kind.value is not None:
            pairs = zip(contents, batch, strict=True)
            contents = [kind.value(bytes(content), name_of(p)) for content, p in pairs]
        return {
            kind.tensor: contents,
            **{name: [facts.value(p, name) for p in batch] for name in facts.types},
        }

    def stamp(image: FoundFile) -> str:
        row = "" if facts.stamp is None else facts.stamp(image)
        return f"{image.nbytes}:{image.stamp}{row}"

    return Source(
        kind=kind.name,
        schema={**types, **(schema or {})},
        items=images,
        sizes=[image.nbytes for image in images],
        name=name_of,
        load=load,
        place=Path(shown).name,
        where=full_place(folder),
        names_classes=True,
        left_out=[
            *left_out,
            *(SkippedItem(name_of(p), facts.why) for p in facts.outside),
            *(SkippedItem(name_of(p), _FOREIGN) for p in foreign),
        ],
        takes_schema=True,
        stamp=stamp,
        unit=kind.unit or kind.tensor,
        settings=given_settings(
            schema, labels=labels, pattern=None if names is None else names.text
        ),
        apart=f", in a folder that holds {' and '.join(layers)} folders" if layers else "",
        content=(kind.tensor,),
    )


def _type_in(
    kind: FileKind,
    images: Sequence[FoundFile],
    read: Callable[[Sequence[FoundFile]], Sequence[Any]],
    *,
    is_strict: bool,
) -> SampleType | None:
    """Return the type of the first valid file; None by paths, or where none is: an error later."""
    if kind.type_in is None:
        return None
    refused: list[SkippedItem] = []
    for one in images:
        try:
            return kind.type_in(bytes(read([one])[0]))
        except ValueError as error:
            if is_strict:
                continue  # it is named when it is ingested
            refused.append(SkippedItem(name_of(one), str(error).splitlines()[0]))
    if refused:
        raise no_rows(kind.name, refused)
    return None


def _address(path: str) -> str | Path:
    return path if is_url(path) else Path(path)


def _is_foreign(foreign: Sequence[FoundFile], shown: str) -> InvalidInputError:
    kinds = ", ".join(sorted({ending_of(p.path) for p in foreign}))
    few = plural(len(foreign), "file")
    frames = (
        "\nto store the frames of each file as a sequence:"
        " schema={'image': tl.Sequence(tl.Image('png'))}"
    )
    return InvalidInputError(
        f"{name_of(foreign[0])!r} of {shown!r} {_FOREIGN} ({few}: {kinds})"
        f"{frames if any(ending_of(p.path) == GIF for p in foreign) else ''}"
        f"\nsupported suffixes: {', '.join(IMAGE_ENDINGS)}; convert them, or leave them out:"
        " on_error='skip'",
        src=shown,
        item=name_of(foreign[0]),
    )


def found_files(
    kind: FileKind, folder: str, files: SourceFiles, left_out: list[SkippedItem] | None
) -> tuple[Iterator[FoundFile], Archive | None]:
    """Return the images of a folder or an archive, and the archive."""
    shown = public_url(folder)
    if files.nbytes(folder) is not None:
        archive = open_archive(folder, files)
        if archive is not None:
            return _members(kind, shown, archive, left_out), archive
        advice = f"pass a folder, a zip or a tar file of {kind.name}"
        if ".tar" in Path(shown).suffixes or shown.endswith(".tgz"):
            advice = "decompress it, or unpack it and pass the folder"
        message = f"{shown!r} is neither a folder nor a complete zip or tar file\n{advice}"
        raise InvalidInputError(message, src=shown)
    if is_url(folder):
        return _walk_store(kind, folder, files), None
    if not Path(folder).is_dir():
        raise InvalidInputError(
            f"no folder {shown!r} to ingest\npass a folder, a zip or a tar file of {kind.name}",
            src=shown,
        )
    return _walk(kind, folder, (), left_out), None


def _walk_store(kind: FileKind, folder: str, files: SourceFiles) -> Iterator[FoundFile]:
    start = folder.rstrip("/") + "/"
    for path, nbytes in files.list(folder).items():
        *parts, name = path.removeprefix(start).split("/")
        is_hidden = any(part.startswith(".") for part in (*parts, name))
        if not is_hidden and kind.sees(name):
            yield FoundFile(path, nbytes, tuple(parts), files.stamp(path))


def _walk(
    kind: FileKind,
    folder: str,
    parts: tuple[str, ...],
    left_out: list[SkippedItem] | None,
    above: tuple[str, ...] = (),
) -> Iterator[FoundFile]:
    above = (*above, os.path.realpath(folder))
    try:
        listed = os.scandir(folder)
    except OSError as error:
        if left_out is None:
            raise unreadable_file(folder, error) from error
        reason = f"the folder cannot be read: {error.strerror}"
        left_out.append(SkippedItem("/".join(parts) or folder, reason))
        return
    with listed as entries:
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                continue
            if _is_folder(entry):
                if entry.is_symlink() and os.path.realpath(entry.path) in above:
                    continue  # a link to where we are would never end
                yield from _walk(kind, entry.path, (*parts, name), left_out, above)
            elif kind.sees(name):
                yield FoundFile(entry.path, *_size_and_time(entry, parts))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads back to itself: reported, or left out, when it is read
        return False


def _size_and_time(
    entry: os.DirEntry[str], parts: tuple[str, ...]
) -> tuple[int, tuple[str, ...], int]:
    try:
        found = entry.stat()
    except OSError:  # such as a link to nothing: told, or left out, when it is read
        return 0, parts, 0
    return found.st_size, parts, found.st_mtime_ns


def _members(
    kind: FileKind, shown: str, archive: Archive, left_out: list[SkippedItem] | None
) -> Iterator[FoundFile]:
    listed = list(archive.members())
    counts = Counter(member.name for member in listed)
    for member in listed:
        *parts, name = _path_in(member.name)
        if "__MACOSX" in parts or not kind.sees(name):
            continue
        if any(part.startswith(".") for part in (*parts, name)):
            continue
        reason = None
        if member.problem is not None:
            reason = f"{member.name!r} of {shown!r} {member.problem}"
        elif member.nbytes > MAX_MEMBER_NBYTES:
            size = f"{member.nbytes:,} bytes"
            reason = f"{member.name!r} of {shown!r} declares a size of {size}"
        elif counts[member.name] > 1:
            reason = f"{shown!r} contains two files {member.name!r}"
        if reason is not None:
            if left_out is None:
                raise InvalidInputError(reason, src=shown, item=member.name)
            left_out.append(SkippedItem(member.name, reason))
            continue
        yield FoundFile(member.name, member.nbytes, tuple(parts), member.stamp)


def _without_outer(images: list[FoundFile]) -> list[FoundFile]:
    depth = outer_folders({p.parts for p in images})
    return [p._replace(parts=p.parts[depth:]) for p in images] if depth else images


def _path_in(name: str) -> list[str]:
    r"""Folders and name of an archive's member; some programs of Windows write ``cat\1.jpg``."""
    parts = name.split("/" if "/" in name else "\\")
    return [part for part in parts[:-1] if part not in ("", ".", "..")] + parts[-1:]
