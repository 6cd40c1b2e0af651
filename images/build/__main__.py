"""`python -m images.build`: all images, for people and for make. Must only read words and call."""

import argparse
import sys

from images.build.images import IMAGES, build, names
from tests.cluster.base import BASE
from tests.cluster.steps import ClusterError


def main() -> int:
    """What the words say."""
    parser = argparse.ArgumentParser(prog="python -m images.build", description="Build the images.")
    parser.add_argument("images", nargs="*", metavar="IMAGE", help=f"of {', '.join(IMAGES)} (default: all)")
    parser.add_argument("--base", default=BASE, metavar="IMAGE", help=f"a Debian bookworm (default: {BASE})")
    arguments = parser.parse_args()
    if unknown := set(arguments.images) - set(IMAGES):
        parser.error(f"there is no image {', '.join(sorted(unknown))}; there are {', '.join(IMAGES)}")
    try:
        for image, tagged in build(arguments.images or IMAGES, arguments.base).items():
            print("\n".join(names(image, tagged)))  # noqa: T201 - what to load and push
    except ClusterError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


sys.exit(main())
