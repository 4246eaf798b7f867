from typing_extensions import Buffer

def version() -> int: ...
def correlate(
    units: Buffer, noise: Buffer, buffers: Buffer, theta: Buffer, omega: Buffer
) -> None: ...
def normal(words: Buffer, out: Buffer) -> None: ...
def objects(
    data: Buffer,
    starts: Buffer,
    ends: Buffer,
    name: Buffer,
    size: int,
    lengths: Buffer,
    places: Buffer,
    numbers: Buffer,
    rest: Buffer,
    rest_starts: Buffer,
    rest_ends: Buffer,
) -> tuple[int, int]: ...
