SET sql_generate_invisible_primary_key = ON;
CREATE TABLE t (a INT, b VARCHAR(9));
INSERT INTO t VALUES (1, 'x'), (1, 'x'), (NULL, '');
