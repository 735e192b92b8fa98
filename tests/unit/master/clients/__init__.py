"""Tests of `quadlog/master/clients/`."""
