"""Which of PostgreSQL's SQL truezero uses, and what databases that speak its protocol say of it.

It knows documentation only: none of them was run. A test holds the list to what a server heard.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Says(Enum):
    """What a database's own pages say of a feature; open is what was not found on them."""

    YES = "yes"
    CHANGES = "with changes"
    NO = "no"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What one database says, in a few words of ours, and the key of its page in `PAGES`."""

    says: Says
    why: str = ""
    page: str = ""


YES, OPEN = Word(says=Says.YES), Word(says=Says.OPEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Something of PostgreSQL's that a statement of ours needs.

    ``words`` are the keywords, functions and operators that belong to it and to nothing before it.
    """

    name: str
    where: str
    words: str
    citus: Word = OPEN
    yugabyte: Word = OPEN
    cockroach: Word = OPEN


PAGES = {
    "citus": "https://docs.citusdata.com/en/stable/develop/reference_workarounds.html",
    "yb-fork": "https://docs.yugabyte.com/explore/ysql-language-features/",
    "yb-locks": "https://docs.yugabyte.com/stable/explore/transactions/explicit-locking/",
    "yb-notify": "https://docs.yugabyte.com/stable/api/ysql/the-sql-language/statements/cmd_listen_notify/",
    "yb-parts": "https://docs.yugabyte.com/stable/explore/ysql-language-features/advanced-features/partitions/",
    "yb-rc": "https://docs.yugabyte.com/stable/reference/configuration/postgresql-compatibility/",
    "crdb": "https://www.cockroachlabs.com/docs/v26.3/postgresql-compatibility",
    "crdb-advisory": "https://github.com/cockroachdb/cockroach/issues/13546",
    "crdb-notify": "https://github.com/cockroachdb/cockroach/issues/41522",
    "crdb-parts": "https://github.com/cockroachdb/cockroach/pull/21277",
    "crdb-lock": "https://cockroachlabs.com/docs/v21.1/select-for-update",
}


def _word(says: Says, page: str, why: str = "") -> Word:
    return Word(says=says, why=why, page=page)


def _unsure(why: str) -> Word:
    return Word(says=Says.OPEN, why=why)


_FORK = _word(Says.YES, "yb-fork", "PostgreSQL's own query layer")
_MOST = _word(Says.YES, "crdb", "“the majority of PostgreSQL syntax”")
_SHARD = _word(Says.YES, "citus", "on one shard; across shards see below")

FEATURES = (
    Feature(
        name="plain SQL: rows asked for, joined, counted, written, in transactions",
        where="everywhere",
        words="""select insert into update delete from where and or not in is null as order by asc
        desc limit offset group having distinct count min max sum coalesce case when then else end
        join left outer on values set exists between cast union begin commit rollback true false
        like float floor integer varchar
        bigint text boolean numeric double precision filter ilike escape = < > <= >= <> != + - * / || ::""",
        citus=_SHARD, yugabyte=_FORK, cockroach=_MOST,
    ),
    Feature(
        name="subqueries that depend on the outer row, outer joins of rollouts and verdicts",
        where="database.py, overview.py, pruning.py",
        words="",
        citus=_word(Says.CHANGES, "citus", "on the distribution column only: all tables by rollout id"),
        yugabyte=_FORK, cockroach=_MOST,
    ),
    Feature(
        name="INSERT … ON CONFLICT DO NOTHING / DO UPDATE",
        where="postgres.py, database.py, archive.py",
        words="conflict do nothing",
        citus=_unsure("the unique key would have to hold the distribution column"),
        yugabyte=_FORK, cockroach=_MOST,
    ),
    Feature(
        name="a group commit: WITH of several INSERT … SELECT and a DELETE, rows as JSON",
        where="postgres.py",
        words="with jsonb_array_elements jsonb row ->> cross",
        citus=_word(Says.CHANGES, "citus",
                    "“subqueries within INSERT queries are not supported”: a statement for each table"),
        yugabyte=_FORK, cockroach=_unsure("two INSERTs of one statement are into one table (rollouts, gaps)"),
    ),
    Feature(
        name="range partitions, one of them the default, made, attached, detached, dropped",
        where="months.py, migration 0002",
        words="""partition range default attach detach for to create table including defaults
        constraints drop alter column add primary index rename type sequence constraint returning of to_regclass
        regclass local pg_inherits""",
        citus=_word(Says.CHANGES, "citus", "one level of partitions; the key gets the distribution column"),
        yugabyte=_word(Says.YES, "yb-parts"),
        cockroach=_word(Says.NO, "crdb-parts",
                        "partitions are listed in the table, no tables of their own: one table, months"
                        " deleted by row"),
    ),
    Feature(
        name="a partial index",
        where="migration 0001 (rollouts_drilled)",
        words="",
        citus=_SHARD, yugabyte=_FORK, cockroach=_MOST,
    ),
    Feature(
        name="numbers that count up (SERIAL)",
        where="events, rows.py",
        words="setval pg_get_serial_sequence",
        citus=_word(Says.CHANGES, "citus", "BIGINT only, not in the order of commits"),
        yugabyte=_unsure("whether numbers come in the order in which they are asked for"),
        cockroach=_unsure("whether numbers come in the order in which they are asked for"),
    ),
    Feature(
        name="advisory locks until the end of a transaction",
        where="locks.py, postgres.py",
        words="pg_advisory_xact_lock",
        citus=_unsure("a lock is one node's: all writers by way of the coordinator"),
        yugabyte=_word(Says.YES, "yb-locks"),
        cockroach=_word(Says.NO, "crdb-advisory",
                        "no-ops or unknown; [drafted](https://github.com/cockroachdb/docs/pull/23239) in 2026: a row FOR"
                        " UPDATE in its place"),
    ),
    Feature(
        name="LISTEN, pg_notify",
        where="bell.py, database.py, postgres.py",
        words="listen pg_notify",
        citus=_unsure("a channel is one node's: all by way of the coordinator"),
        yugabyte=_word(Says.CHANGES, "yb-notify", "from 2025.2.3, and off unless switched on"),
        cockroach=_word(Says.NO, "crdb-notify", "look by and by, as on SQLite"),
    ),
    Feature(
        name="rows held: FOR UPDATE, FOR NO KEY UPDATE, SKIP LOCKED",
        where="database.py, pruning.py",
        words="no skip locked",
        citus=_word(Says.CHANGES, "citus", "on one shard only; that of dead workers is: a local table"),
        yugabyte=_word(Says.YES, "yb-locks"),
        cockroach=_word(Says.CHANGES, "crdb-lock", "FOR UPDATE; [SKIP LOCKED](https://github.com/cockroachdb/docs/issues/14770) since"),
    ),
    Feature(
        name="REPEATABLE READ for what is read, READ COMMITTED for what is written",
        where="postgres.py, rows.py",
        words="transaction isolation level repeatable read committed",
        citus=_unsure("whether one moment is read across shards"),
        yugabyte=_word(Says.CHANGES, "yb-rc", "READ COMMITTED is a setting (yb_enable_read_committed_isolation)"),
        cockroach=OPEN,
    ),
    Feature(
        name="cursors on the server: DECLARE, FETCH FORWARD, CLOSE",
        where="rows.py: archives and copies",
        words="declare cursor fetch forward close",
        citus=OPEN, yugabyte=_FORK, cockroach=OPEN,
    ),
    Feature(
        name="texts ordered by their bytes: COLLATE \"C\"",
        where="rows.py",
        words="collate",
        citus=OPEN, yugabyte=OPEN, cockroach=OPEN,
    ),
    Feature(
        name="prepared statements, SAVEPOINT (the driver's own)",
        where="psycopg",
        words="deallocate all savepoint release",
        citus=OPEN, yugabyte=_FORK, cockroach=_MOST,
    ),
    Feature(
        name="COPY … FROM STDIN",
        where="rows.py: `truezero db copy`",
        words="copy stdin",
        citus=OPEN, yugabyte=_FORK, cockroach=_MOST,
    ),
    Feature(
        name="since when the server runs",
        where="database.py: verdicts after a restart",
        words="pg_postmaster_start_time now extract",
        citus=_unsure("the coordinator's"), yugabyte=_FORK, cockroach=OPEN,
    ),
    Feature(
        name="catalogues and settings",
        where="Alembic, SQLAlchemy, months.py",
        words="""pg_class pg_namespace pg_type pg_table_is_visible current_schema version show
        information_schema.columns array any to_regtype regtype""",
        citus=OPEN, yugabyte=_FORK, cockroach=_word(Says.YES, "crdb", "catalogues of PostgreSQL 18"),
    ),
)  # fmt: skip


def known_words() -> frozenset[str]:
    """Every keyword, function and operator that a feature lists."""
    return frozenset(word for feature in FEATURES for word in feature.words.split())


def table() -> Iterator[str]:
    """The list as a table in Markdown."""
    yield "| what our SQL uses | where | Citus | YugabyteDB | CockroachDB |"
    yield "|---|---|---|---|---|"
    for each in FEATURES:
        said = (_cell(word) for word in (each.citus, each.yugabyte, each.cockroach))
        yield f"| {each.name} | {each.where} | {' | '.join(said)} |"


def _cell(word: Word) -> str:
    said = f"[{word.says.value}]({PAGES[word.page]})" if word.page else word.says.value
    return f"{said}: {word.why}" if word.why else said
