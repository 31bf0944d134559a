-- select=1: a`b
UPDATE `order` SET `a``b` = 5 WHERE `select` = 1;
