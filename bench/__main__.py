"""Run the benchmarks: ``python -m bench [--smoke] [NAME…]``.

Each is a module here with ``main(smoke)``, which prints its figures. With ``--smoke`` sizes are tiny: it shows that
everything runs, and no figure of it means anything.
"""

import argparse
import importlib
import sys
import time

NAMES = ("tables", "xds", "dns", "kernel", "mesh", "hop")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}")
    for name in options.names or NAMES:
        print(f"== {name}", flush=True)
        started = time.monotonic()
        importlib.import_module(f"bench.{name}").main(options.smoke)
        print(f"== {name} took {time.monotonic() - started:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
