"""``weir verify`` and ``weir keygen``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from weir.dpcore.errors import ConfigError
from weir.pipelines.cli.base import AS_JSON, SETS, print_json


@click.command(short_help="Check a folder of releases against its receipt.")
@click.argument("directory")
@click.option(
    "--public-key",
    metavar="KEY",
    help="Key that must have signed: KEY.pub of weir keygen, or its 64 hex digits.",
)
@click.option(
    "--secret-file",
    type=click.Path(dir_okay=False),
    help="Compute the releases again, with this secret of the run. For operators.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Compute them again by this config of the run: its source, and its secret.",
)
@click.option("--source", metavar="FILE", help="Events to compute them from; overrides CONFIG's.")
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Compare the rows of N pairs of a key and a tick, drawn at random, not all.",
)
@SETS
@AS_JSON
def verify(
    directory: str,
    public_key: str | None,
    secret_file: str | None,
    config: Path | None,
    source: str | None,
    sample: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check the releases in DIRECTORY, a folder on a disk or in a bucket.

    Every file is compared with the receipt that the run left, and with --public-key the receipt's
    signature. This needs no secret and reads no events.

    With --secret-file or --config the releases are computed again from the events, in memory, and
    compared row by row. This reports which rows differ, and no values. It is for operators: which
    rows change with the events is exact.

    Exit codes: 10 no receipt, 11 damaged receipt, 12 not signed, 13 signed with another key, 14
    changed after signing, 15 another plan, 16 changed file, 17 missing file, 18 additional file, 19
    rows differ.

    \b
      weir verify out/ --public-key signing.key.pub
      weir verify out/ --secret-file secret.key --source events.csv
      weir verify out/ --config shop.yaml --sample 1000
    """
    from weir.pipelines.verify import folder as check
    from weir.transforms.runtime.signing import read_public

    again = secret_file is not None or config is not None
    for name, value in {"--source": source, "--sample": sample, "--set": sets or None}.items():
        if value is not None and not again:
            raise ConfigError(
                name, value, "is for computing releases again: give --secret-file or --config too."
            )
    place = directory if "://" in directory else str(Path(directory))
    result = check.check_folder(place, None if public_key is None else read_public(public_key))
    rederived = None
    if again:
        from weir.pipelines.verify.rederive import rederive
        from weir.pipelines.verify.stored_job import job_of

        parts, stored = job_of(place, config, source, secret_file, sets)
        rederived = rederive(place, parts, stored, sample)
        result = replace(result, faults=(*result.faults, *rederived.faults))
    if as_json:
        facts = {} if rederived is None else {"rederived": rederived.to_json()}
        print_json(result.to_json() | facts)
    else:
        from weir.pipelines.verify.words import lines

        for line in lines(result, rederived):
            click.echo(line)
    for fault in result.faults:
        click.echo(f"weir: fault {int(fault.kind)}: {fault.sentence}", err=True)
    click.get_current_context().exit(result.exit_code)


@click.command(short_help="Make a key that signs receipts.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def keygen(file: Path) -> None:
    """Make a key in FILE that signs receipts, and its public key in FILE.pub.

    Name FILE in the config as sink.signing_key; give FILE.pub to those who verify. It is no
    secret of the noise: make that with openssl rand.

    \b
      weir keygen signing.key
    """
    from weir.transforms.runtime.signing import generate

    public = generate(file)
    click.echo(f"{file}: signing key, for sink.signing_key; only you can read it.")
    click.echo(f"{file}.pub: public key {public}")


__all__ = ["keygen", "verify"]
