CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT, e ENUM('', 'a'));
INSERT IGNORE INTO t VALUES (1, 0, 'no such member'), (2, 0, ''), (3, 0, 'a'), (5, 0, 0);
CREATE TABLE more LIKE t;
INSERT IGNORE INTO more SELECT id + 1000, n, e + 0 FROM t;
