CREATE TABLE alone (e ENUM('zz', '10', '9', 'b', 'A', '', 'é', '2') NOT NULL PRIMARY KEY, x INT)
  DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
INSERT INTO alone VALUES ('zz', 1), ('10', 2), ('9', 3), ('b', 4), ('A', 5), ('', 6), ('2', 8);
CREATE TABLE before_id (e ENUM('zz', '3', '1', 'b', '2') NOT NULL, id INT NOT NULL, x INT,
  PRIMARY KEY (e, id)) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
INSERT INTO before_id WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300)
  SELECT 1 + i % 5, i, i FROM n;
CREATE TABLE after_id (id INT NOT NULL, e ENUM('zz', '3', '1', 'b', '2') NOT NULL, x INT,
  PRIMARY KEY (id, e)) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
INSERT INTO after_id WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300)
  SELECT i % 10, 1 + i % 3, i FROM n WHERE i <= 30;
CREATE TABLE only_unique (e ENUM('b', 'a') NOT NULL, f ENUM('2', '1') NOT NULL, x INT,
  UNIQUE KEY u (e, f)) DEFAULT CHARACTER SET latin1;
INSERT INTO only_unique VALUES ('a', '1', 1), ('a', '2', 2), ('b', '1', 3), ('b', '2', 4);
