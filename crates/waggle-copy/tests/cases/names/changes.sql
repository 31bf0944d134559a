UPDATE `order` SET `a``b` = 7, `blüb` = 'é' WHERE `select` = 2;
INSERT INTO `blüb_tbl` VALUES (2, 2);
DELETE FROM `a.b-c``d` WHERE `id` = 1;
