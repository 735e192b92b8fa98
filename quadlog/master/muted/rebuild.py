"""`quadlog dc rebuild` of a muted data centre: deletes its copies, so that its master copies all again."""

from __future__ import annotations

from quadlog.errors import SetupError
from quadlog.master.muted.followed_topics import FILE
from quadlog.master.recovery.rebuild import TopicsRebuild
from quadlog.master.recovery.startup_checks import prepare_topics


class MutedRebuild(TopicsRebuild):
    """Rebuild of copies: nothing can be lost, and no peer must be informed."""

    def run(self, *, is_meant: bool) -> None:
        """Delete the copies, if that is confirmed.

        Raises:
            SetupError: its master or a worker runs, or the change is not confirmed.
            Unavailable: the local Kafka does not answer.

        """
        own, source = self._sites.own, self._settings.source
        self._refuse_while_masters_run()
        self._refuse_while_workers_run()
        if not is_meant:
            raise SetupError(
                f"{own.agreed} and {own.effects} would be deleted, and copied again from {source}; the workers of"
                f" {self._sites.dc} would be fed again. Say --yes if that is meant; nothing was changed"
            )
        self._admin.delete([own.rounds, own.agreed, own.effects])
        prepare_topics(self._settings)
        self._say_all_lost({self._sites.node: b""})  # which informs its workers
        # Must be last: until then, its master does not start, and this command must be run again.
        (self._settings.data_dir / FILE).unlink(missing_ok=True)
        self._tell(f"{self._sites.dc} is empty: start its workers, and its master, which copies {source}")
