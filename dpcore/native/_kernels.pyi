from typing_extensions import Buffer

def accumulate(values: Buffer, shape: Buffer, /) -> None: ...
def add_events(
    columns: tuple[Buffer, ...],
    ticks: Buffer,
    codes: Buffer,
    rows: Buffer,
    channels: Buffer,
    shape: Buffer,
    counts: Buffer,
    grid: Buffer,
    /,
) -> None: ...
def aes() -> bool: ...
def blake2b(key: Buffer, person: Buffer, data: Buffer, offsets: Buffer, out: Buffer, /) -> None: ...
def cell_digests(
    key: Buffer, heads: Buffer, ticks: Buffer, values: Buffer, out: Buffer, /
) -> None: ...
def cells(
    data: Buffer,
    starts: Buffer,
    ends: Buffer,
    wanted: Buffer,
    at: Buffer,
    sizes: Buffer,
    there: Buffer,
    plain: Buffer,
    delimiter: Buffer,
    /,
) -> None: ...
def correlate(
    units: Buffer, noise: Buffer, buffers: Buffer, theta: Buffer, omega: Buffer
) -> None: ...
def correlate_exact(
    units: Buffer, buffers: Buffer, numbers: Buffer, curves: Buffer, bits: Buffer, /
) -> None: ...
def discrete(
    mac: Buffer,
    stream: Buffer,
    heads: Buffer,
    labels: Buffer,
    digests: Buffer,
    out: Buffer,
    coordinates: Buffer,
    rows: Buffer,
    tables: Buffer,
    of: Buffer,
    powers: Buffer,
    /,
) -> int: ...
def doubles(values: Buffer, /) -> tuple[int, int]: ...
def draw(
    mac: Buffer,
    stream: Buffer,
    heads: Buffer,
    labels: Buffer,
    digests: Buffer,
    out: Buffer,
    kind: Buffer,
    /,
) -> None: ...
def encrypt(key: Buffer, source: Buffer, out: Buffer, /) -> None: ...
def event_rows(
    columns: tuple[Buffer, ...],
    ends: Buffer,
    shape: Buffer,
    bounds: Buffer,
    counts: Buffer,
    table: Buffer,
    /,
) -> bool: ...
def event_sums(
    columns: tuple[Buffer, ...],
    ends: Buffer,
    shape: Buffer,
    bounds: Buffer,
    counts: Buffer,
    starts: Buffer,
    stops: Buffer,
    cells: Buffer,
    sums: Buffer,
    kind: Buffer,
    /,
) -> bool: ...
def excess(
    mac: Buffer,
    stream: Buffer,
    heads: Buffer,
    labels: Buffer,
    out: Buffer,
    ticks: Buffer,
    keys: Buffer,
    digests: Buffer,
    counts: Buffer,
    curves: Buffer,
    poles: Buffer,
    coordinate: Buffer,
    largest: Buffer,
    rows: Buffer,
    tables: Buffer,
    of: Buffer,
    powers: Buffer,
    /,
) -> None: ...
def exponential(words: Buffer, out: Buffer, /) -> None: ...
def fields(
    data: Buffer,
    starts: Buffer,
    ends: Buffer,
    names: Buffer,
    nodes: Buffer,
    at: Buffer,
    sizes: Buffer,
    there: Buffer,
    plain: Buffer,
    /,
) -> None: ...
def gather(data: Buffer, at: Buffer, sizes: Buffer, offsets: Buffer, out: Buffer, /) -> None: ...
def hash_numbers(key: Buffer, numbers: Buffer, out: Buffer, /) -> None: ...
def hash_spans(key: Buffer, offsets: Buffer, data: Buffer, out: Buffer, /) -> None: ...
def leaf_digests(key: Buffer, heads: Buffer, leaves: Buffer, out: Buffer, /) -> None: ...
def logarithm(values: Buffer, out: Buffer, /) -> None: ...
def lookup(slots: Buffer, known: Buffer, asked: Buffer, out: Buffer, /) -> None: ...
def mac(key: Buffer, first: Buffer, numbers: Buffer, last: Buffer, out: Buffer, /) -> None: ...
def newlines(data: Buffer, out: Buffer, wanted: Buffer, seen: Buffer, /) -> int: ...
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
def running(
    total: Buffer, leaves: Buffer, drawn: Buffer, noisy: Buffer, out: Buffer, /
) -> None: ...
def sum_cells(
    ticks: Buffer,
    rows: Buffer,
    counts: Buffer,
    values: Buffer,
    own_ticks: Buffer,
    own_rows: Buffer,
    summed: Buffer,
    sums: Buffer,
    words: Buffer,
    room: Buffer,
    shape: Buffer,
    /,
) -> int: ...
def times(data: Buffer, offsets: Buffer, out: Buffer, kinds: Buffer, /) -> None: ...
def untouched(
    packed: Buffer,
    high: Buffer,
    low: Buffer,
    keys: Buffer,
    ticks: Buffer,
    periods: Buffer,
    caps: Buffer,
    out: Buffer,
    /,
) -> None: ...
def version() -> int: ...
def vectors(words: Buffer, out: Buffer, d: int, /) -> None: ...
