UPDATE keyed SET a = 6 WHERE a = 5;
DELETE FROM keyed WHERE a = 9;
