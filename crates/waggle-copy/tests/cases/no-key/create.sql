CREATE TABLE t (a INT, b VARCHAR(9));
INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, NULL);
CREATE TABLE nullable (a INT, UNIQUE KEY ua (a));
INSERT INTO nullable VALUES (1), (NULL), (NULL);
