PRAGMA application_id = 1818584167;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE entries (
	sequence INTEGER NOT NULL, 
	data_set TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	release_key TEXT, 
	time TEXT NOT NULL, 
	body TEXT NOT NULL, 
	previous_hash TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (data_set, kind, release_key)
);
INSERT INTO "entries" VALUES(1,'survey','grant',NULL,'2026-11-30T09:20:41.490967+00:00','{"actor":"officer","budget":{"delta":"1e-5","epsilon":"1"},"purpose":"health study","table":null,"unit":{"relation":"change-one","rows_per_person":5}}','0000000000000000000000000000000000000000000000000000000000000000','9ed35a35b73e06b9106a080005717e89aab5363e66638663e70417fbf71ad10b');
INSERT INTO "entries" VALUES(2,'survey','table',NULL,'2026-11-30T09:20:41.536242+00:00','{"columns":["age","income"],"rows":10}','9ed35a35b73e06b9106a080005717e89aab5363e66638663e70417fbf71ad10b','1c80a5878c227ee44b428ba7753729e6b5a7c8fafdfcc2b7621f100f37cf3cbf');
INSERT INTO "entries" VALUES(3,'survey','charge','first','2026-11-30T09:20:41.540331+00:00','{"actor":"ana","budget":{"delta":"5e-6","epsilon":"0.5"},"plan_hash":"f00","purpose":"annual report","release_key":"first","stages":[{"budget":{"delta":"5e-6","epsilon":"0.5"},"losses":[{"count":3,"epsilon":"0.01","kind":"pure"},{"count":1,"kind":"gaussian","leak":"0","mu":"1/3"}],"name":"mean"}],"unit":{"relation":"change-one","rows_per_person":5}}','1c80a5878c227ee44b428ba7753729e6b5a7c8fafdfcc2b7621f100f37cf3cbf','0763a5eef494a8f7b5e480647bca60cf89aa95735bad745c06ecf5ca94217f68');
INSERT INTO "entries" VALUES(4,'survey','started','first','2026-11-30T09:20:41.565409+00:00','{}','0763a5eef494a8f7b5e480647bca60cf89aa95735bad745c06ecf5ca94217f68','154f2aa6aa153274d095c818563d8ad6072824ec944dfc73c485a00c20012c55');
INSERT INTO "entries" VALUES(5,'survey','release','first','2026-11-30T09:20:41.588760+00:00','{"values":[1.5,2]}','154f2aa6aa153274d095c818563d8ad6072824ec944dfc73c485a00c20012c55','386e535aac21f4fc57f5e318e3f3cd744766e4bd8b47a40e5943560839383c48');
INSERT INTO "entries" VALUES(6,'survey','refusal',NULL,'2026-11-30T09:20:41.615743+00:00','{"actor":"ana","asked":{"delta":"1e-6","epsilon":"0.6"},"granted":{"delta":"1e-5","epsilon":"1"},"plan_hash":"f00","purpose":"annual report","release_key":"large","remaining":{"delta":"5e-6","epsilon":"0.5"},"shortfall":{"delta":"0","epsilon":"0.1"},"spent":{"delta":"5e-6","epsilon":"0.5"}}','386e535aac21f4fc57f5e318e3f3cd744766e4bd8b47a40e5943560839383c48','8a0edbc0fc95feb0421be4c73242a0a30310dc02de626ca79bae54024546c420');
INSERT INTO "entries" VALUES(7,'survey','rejection',NULL,'2026-11-30T09:20:41.637971+00:00','{"actor":"root","reason":"table must be the one on record, 10 rows with the columns of the grant; got 11 rows. Use that table."}','8a0edbc0fc95feb0421be4c73242a0a30310dc02de626ca79bae54024546c420','a7b91aeecea6919f8be7796a7c0319481d19cdfa38a90d6c636da0bb1069a701');
INSERT INTO "entries" VALUES(8,'survey','charge','second','2026-11-30T09:20:41.669811+00:00','{"actor":"ana","budget":{"delta":"1e-6","epsilon":"0.25"},"plan_hash":"f00","purpose":"annual report","release_key":"second","stages":[{"budget":{"delta":"1e-6","epsilon":"0.25"},"losses":[{"count":3,"epsilon":"0.01","kind":"pure"},{"count":1,"kind":"gaussian","leak":"0","mu":"1/3"}],"name":"mean"}],"unit":{"relation":"change-one","rows_per_person":5}}','a7b91aeecea6919f8be7796a7c0319481d19cdfa38a90d6c636da0bb1069a701','4983cdbee5a80c788497571d86cfc873e311a8fe3e3f987cf4eacd7136dd2d08');
INSERT INTO "entries" VALUES(9,'survey','started','second','2026-11-30T09:20:41.695355+00:00','{}','4983cdbee5a80c788497571d86cfc873e311a8fe3e3f987cf4eacd7136dd2d08','a3dd3e3404d2264f31b3a24650a7d81f50ba075c6c7507b6483018617f439ef7');
CREATE TRIGGER entries_refuse_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entries_refuse_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
COMMIT;
