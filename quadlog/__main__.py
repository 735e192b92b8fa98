"""Entry point of `python -m quadlog`."""

from quadlog.cli import main

if __name__ == "__main__":
    main()
