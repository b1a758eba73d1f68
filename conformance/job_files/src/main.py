"""A program that others would submit: prints its options."""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, required=True)
parser.add_argument("--name", required=True)
print(parser.parse_args())
