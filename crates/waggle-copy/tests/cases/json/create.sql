CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT, j JSON, k JSON);
INSERT INTO t VALUES
  (1, 0, '{}', '[]'), (2, 0, NULL, 'null'), (3, 0, 'true', '"é😀\\u0000\\n"'),
  (4, 0, '{"a": [1, 2.5, -3, {"b": null}], "": "", "k\\"ey": "\\\\"}', '18446744073709551615'),
  (5, 0, '-9223372036854775808', '1e300'), (6, 0, '"\\\\N"', '0.1'),
  (7, 0, JSON_ARRAY(REPEAT('x', 70000), 1), JSON_OBJECT('a', REPEAT('é', 40000)));
CREATE TABLE more LIKE t;
INSERT INTO more SELECT id + 1000, n, j, k FROM t;
