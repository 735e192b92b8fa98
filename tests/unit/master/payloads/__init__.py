"""Tests of `quadlog/master/payloads/`."""
