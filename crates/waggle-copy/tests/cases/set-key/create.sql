CREATE TABLE alone (s SET(
    'm0', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7', 'm8', 'm9', 'm10', 'm11', 'm12', 'm13',
    'm14', 'm15', 'm16', 'm17', 'm18', 'm19', 'm20', 'm21', 'm22', 'm23', 'm24', 'm25', 'm26',
    'm27', 'm28', 'm29', 'm30', 'm31', 'm32', 'm33', 'm34', 'm35', 'm36', 'm37', 'm38', 'm39',
    'm40', 'm41', 'm42', 'm43', 'm44', 'm45', 'm46', 'm47', 'm48', 'm49', 'm50', 'm51', 'm52',
    'm53', 'm54', 'm55', 'm56', 'm57', 'm58', 'm59', 'm60', 'm61', 'm62', 'm63'
  ) NOT NULL PRIMARY KEY, x INT) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
INSERT INTO alone VALUES (0, 1), (1, 2), (9223372036854775808, 3), (9223372036854775809, 4),
  (9223372036854775810, 5), (9223372036854775811, 6), (18446744073709551614, 7),
  (18446744073709551615, 8), (9007199254740992, 9), (9007199254740993, 10);
CREATE TABLE few (s SET('b', 'a', '1', '') NOT NULL, id INT NOT NULL, x INT, PRIMARY KEY (s, id))
  DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
INSERT INTO few WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300)
  SELECT i % 9, i, i FROM n;
CREATE TABLE empty_member (id INT NOT NULL PRIMARY KEY, s SET('1', '', 'x'))
  DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
INSERT INTO empty_member VALUES (1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5), (7, 6),
  (8, 7), (9, NULL);
