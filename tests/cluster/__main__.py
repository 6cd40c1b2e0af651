"""`python -m tests.cluster`: the cluster for people and for make. Must only read words and call."""

import argparse
import sys
from pathlib import Path

from tests.cluster import folders
from tests.cluster.diagnosis import diagnose
from tests.cluster.loading import load_image
from tests.cluster.programs import KUBECTL, compiled
from tests.cluster.steps import ClusterError
from tests.cluster.up import down, prepare, up


def main() -> int:
    """What the words say."""
    arguments = _parser().parse_args()
    try:
        match arguments.command:
            case "prepare":
                prepare()
            case "up":
                up(arguments.shared or folders.shared())
                tools = compiled(KUBECTL).parent
                print(f"export KUBECONFIG={folders.kubeconfig()} PATH={tools}:$PATH")  # noqa: T201
            case "down":
                down(daemon=arguments.docker)
            case "load":
                for image in arguments.images:
                    load_image(image)
            case "kubeconfig":
                print(folders.kubeconfig())  # noqa: T201
            case "diagnose":
                diagnose(arguments.folder)
    except ClusterError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description="A kind cluster of three nodes.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("prepare", help="compile and build what `up` needs")
    starting = commands.add_parser("up", help="make the cluster, or use the one that is there if it is whole")
    starting.add_argument(
        "--shared",
        type=Path,
        metavar="FOLDER",
        help="a folder of this machine that all nodes see (default: in the cache)",
    )
    ending = commands.add_parser("down", help="delete the cluster")
    ending.add_argument("--docker", action="store_true", help="also stop the Docker daemon, if `up` started it")
    loading = commands.add_parser("load", help="take images from Docker to the workers")
    loading.add_argument("images", nargs="+", metavar="IMAGE")
    commands.add_parser("kubeconfig", help="print the path of the kubeconfig")
    looking = commands.add_parser("diagnose", help="save what the cluster says about itself")
    looking.add_argument("folder", type=Path, metavar="FOLDER")
    return parser


sys.exit(main())
