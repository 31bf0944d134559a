CREATE TABLE composite (a INT NOT NULL, b VARCHAR(20) NOT NULL, c DATE NOT NULL, x INT,
  PRIMARY KEY (b, a, c)) DEFAULT CHARACTER SET latin1;
INSERT INTO composite VALUES (1, 'a', '2020-01-01', 1), (1, 'B', '2020-01-01', 2),
  (2, 'a', '0000-00-00', 3), (1, '', '2020-01-01', 4), (1, 'ß', '2020-01-01', 5);
CREATE TABLE folded (k VARCHAR(20) NOT NULL PRIMARY KEY, x INT) DEFAULT CHARACTER SET utf8mb4
  COLLATE utf8mb4_unicode_ci;
INSERT INTO folded VALUES ('a', 1), ('B', 2), ('ç', 3), ('d ', 4), ('', 5), ('😀', 6), ('É', 7);
CREATE TABLE exact (k VARCHAR(20) NOT NULL PRIMARY KEY, x INT) DEFAULT CHARACTER SET utf8mb4
  COLLATE utf8mb4_bin;
INSERT INTO exact VALUES ('a', 1), ('A', 2), ('a\0', 3), ('\\', 4), ('''', 5);
CREATE TABLE numbers (k DECIMAL(30,10) NOT NULL, u BIGINT UNSIGNED NOT NULL, x INT, PRIMARY KEY (k, u));
INSERT INTO numbers VALUES (-1.5, 18446744073709551615, 1), (0, 9223372036854775808, 2), (1e19, 0, 3);
CREATE TABLE only_unique (a INT NOT NULL, b INT, x INT, UNIQUE KEY ub (b), UNIQUE KEY ua (a));
INSERT INTO only_unique VALUES (1, NULL, 1), (2, NULL, 2), (3, 3, 3);
CREATE TABLE years (y YEAR NOT NULL, s SET('a', 'b') NOT NULL, x INT, PRIMARY KEY (y, s));
INSERT INTO years VALUES (0, '', 1), (1901, 'a,b', 2), (2155, 'b', 3);
CREATE TABLE descending (a INT NOT NULL, b INT NOT NULL, x INT, PRIMARY KEY (a, b));
INSERT INTO descending VALUES (3, 1, 1), (3, 2, 2), (1, 1, 3);
