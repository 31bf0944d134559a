CREATE TABLE `order` (`select` INT NOT NULL, `a``b` INT, `sp ace` INT, `blüb` VARCHAR(9),
  `a-b` INT, PRIMARY KEY (`select`), KEY `key` (`a``b`)) COMMENT 'it''s; a "table"';
INSERT INTO `order` VALUES (1, 2, 3, 'ü', 4), (2, NULL, NULL, NULL, NULL);
CREATE TABLE `blüb_tbl` (`id` INT NOT NULL PRIMARY KEY, `x` INT);
INSERT INTO `blüb_tbl` VALUES (1, 1);
CREATE TABLE `a.b-c``d` (`id` INT NOT NULL PRIMARY KEY, `x` INT);
INSERT INTO `a.b-c``d` VALUES (1, 1), (2, 2);
