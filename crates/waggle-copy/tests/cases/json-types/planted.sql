-- k='a', id=1: j
REPLACE INTO t (k, id, n, j, l, changed) SELECT k, id, n, '{"d": 2.50, "e": 1.5, "u": 5}', l, changed FROM t WHERE id = 1;
