CREATE TABLE t (
  id INT NOT NULL PRIMARY KEY, n INT, e ENUM('', 'a', 'b c', 'x,y', 'é', 'A1') COLLATE utf8mb4_bin,
  f ENUM('one', 'two') CHARACTER SET latin1, s SET('x', 'y z', '', 'é') COLLATE utf8mb4_bin,
  w SET('a0','a1','a2','a3','a4','a5','a6','a7','a8','a9','b0','b1','b2','b3','b4','b5','b6','b7','b8',
    'b9','c0','c1','c2','c3','c4','c5','c6','c7','c8','c9','d0','d1','d2','d3','d4','d5','d6','d7','d8',
    'd9','e0','e1','e2','e3','e4','e5','e6','e7','e8','e9','f0','f1','f2','f3','f4','f5','f6','f7','f8',
    'f9','g0','g1','g2','g3')
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
INSERT INTO t VALUES
  (1, 0, '', 'one', '', ''), (2, 0, 'x,y', 'two', 'x,y z', 'g3'), (3, 0, NULL, NULL, NULL, NULL),
  (4, 0, 'é', 'one', 'é', 'a0,g3'), (5, 0, 'b c', 'two', 'x,y z,é', 18446744073709551615),
  (6, 0, 'A1', 'two', 8, 9223372036854775808);
CREATE TABLE more LIKE t;
INSERT INTO more SELECT id + 1000, n, e, f, s, w FROM t;
CREATE TABLE keyed (e ENUM('b', 'a', 'c') NOT NULL, id INT NOT NULL, x INT, PRIMARY KEY (e, id));
INSERT INTO keyed VALUES ('a', 1, 1), ('b', 1, 2), ('c', 1, 3), ('a', 2, 4), ('b', 2, 5);
