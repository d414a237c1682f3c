"""The command line. Heavy imports wait until a command needs them, so that --help answers at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sahmc import __version__


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="sahmc",
        description="Draws from multimodal posteriors: Stochastic Approximation Hamiltonian Monte Carlo.",
        epilog="Start with: sahmc demo",
    )
    parser.add_argument("--version", action="version", version=f"sahmc {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="three modes from one: SAHMC beside plain HMC",
        description="Sample the paper's three-mode mixture with default settings, every chain started in one mode, "
        "and plain HMC with as many gradients; print the mode masses beside the truth and draw a picture.",
    )
    demo.add_argument("--out", type=Path, default=Path("demo.png"), help="the picture (default: %(default)s)")
    demo.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 2

    from sahmc.demo import run_demo

    try:
        run_demo(args.out, args.seed)
    except (ValueError, OSError) as error:
        print(f"sahmc: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
