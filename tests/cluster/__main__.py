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
                print(_environment())  # noqa: T201
            case "down":
                down(daemon=arguments.docker)
            case "load":
                for image in arguments.images:
                    load_image(image)
            case "env":
                print(_environment())  # noqa: T201
            case "kubeconfig":
                print(folders.kubeconfig())  # noqa: T201
            case "diagnose":
                diagnose(arguments.folder)
    except ClusterError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _environment() -> str:
    """A line for a shell."""
    return f"export KUBECONFIG={folders.kubeconfig()} PATH={compiled(KUBECTL).parent}:$PATH"


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
    commands.add_parser(
        "env", help="print the line for a shell that sets kubeconfig and kubectl, as `up` does at its end"
    )
    commands.add_parser("kubeconfig", help="print the path of the kubeconfig")
    looking = commands.add_parser("diagnose", help="save what the cluster says about itself")
    looking.add_argument("folder", type=Path, metavar="FOLDER")
    return parser


sys.exit(main())
