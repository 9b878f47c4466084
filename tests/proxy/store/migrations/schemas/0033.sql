BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0033');
CREATE TABLE asked_ways (
	exchange_id VARCHAR(32) NOT NULL, 
	rollout_id VARCHAR(200) NOT NULL, 
	upstream VARCHAR(64) NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	at FLOAT NOT NULL, 
	way TEXT NOT NULL, 
	PRIMARY KEY (exchange_id)
)
 WITHOUT ROWID

;
INSERT INTO "asked_ways" VALUES('x1','a','openai','gpt-5',10.5,'{"api":"openai.chat"}');
CREATE TABLE batch_runs (
	batch VARCHAR(200) NOT NULL, 
	run VARCHAR(200) NOT NULL, 
	begun_at FLOAT NOT NULL, 
	ended_at FLOAT, 
	PRIMARY KEY (batch, run)
)
 WITHOUT ROWID

;
INSERT INTO "batch_runs" VALUES('b1','first',1.0,NULL);
INSERT INTO "batch_runs" VALUES('b2','first',1.0,6000.5);
CREATE TABLE batches (
	batch VARCHAR(200) NOT NULL, 
	first_at FLOAT NOT NULL, 
	last_at FLOAT NOT NULL, 
	version INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (batch)
)
 WITHOUT ROWID

;
INSERT INTO "batches" VALUES('b0',1.70000000242857146268e+09,1.70000000242857146268e+09,2);
INSERT INTO "batches" VALUES('b1',1.70000000214285707476e+09,1700000003.0,3);
INSERT INTO "batches" VALUES('b2',1.70000000271428561206e+09,1.70000000271428561206e+09,2);
CREATE TABLE breakers (
	batch VARCHAR(200) NOT NULL, 
	lane VARCHAR(300) NOT NULL, 
	state TEXT NOT NULL, 
	PRIMARY KEY (batch, lane)
)
 WITHOUT ROWID

;
INSERT INTO "breakers" VALUES('b1','openai/gpt-5/key-0','{"answered_at":null,"batch":"b1","canary":null,"failed_probes":0,"fingerprint":"auth:401","lane":"openai/gpt-5/key-0","opened_at":1700000000.123456,"phase":"open","probed_at":null,"probes":true,"retry_at":null,"streak":2,"threshold":2,"tripped_by":["a","\u00e9"]}');
CREATE TABLE budgets (
	kind VARCHAR(8) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	batch VARCHAR(200), 
	declared TEXT, 
	calls INTEGER, 
	tokens INTEGER, 
	cost_usd FLOAT, 
	seconds FLOAT, 
	on_limit VARCHAR(8), 
	pause_s FLOAT, 
	spent_calls INTEGER DEFAULT '0' NOT NULL, 
	spent_tokens INTEGER DEFAULT '0' NOT NULL, 
	spent_cost_usd FLOAT DEFAULT '0' NOT NULL, 
	spent_seconds FLOAT DEFAULT '0' NOT NULL, 
	largest_tokens INTEGER DEFAULT '0' NOT NULL, 
	largest_cost_usd FLOAT DEFAULT '0' NOT NULL, 
	largest_seconds FLOAT DEFAULT '0' NOT NULL, 
	reached_at FLOAT, 
	PRIMARY KEY (kind, name)
)
 WITHOUT ROWID

;
INSERT INTO "budgets" VALUES('batch','b2',NULL,'{"calls":9,"cost_usd":null,"seconds":2.5,"tokens":null}',9,NULL,NULL,2.5,'refuse',60.0,0,0,0.0,0.0,0,0.0,0.0,NULL);
INSERT INTO "budgets" VALUES('rollout','é','b2','{"calls":null,"cost_usd":0.3333333333333333,"seconds":null,"tokens":100}',NULL,100,3.33333333333333314829e-01,NULL,'refuse',60.0,0,0,0.0,0.0,0,0.0,0.0,NULL);
CREATE TABLE call_usage (
	batch VARCHAR(200) NOT NULL, 
	minute INTEGER NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	upstream VARCHAR(64) NOT NULL, 
	role VARCHAR(40) NOT NULL, 
	cause VARCHAR(20) NOT NULL, 
	basis VARCHAR(8) NOT NULL, 
	slot INTEGER NOT NULL, 
	calls INTEGER DEFAULT '0' NOT NULL, 
	input_known_calls INTEGER DEFAULT '0' NOT NULL, 
	output_known_calls INTEGER DEFAULT '0' NOT NULL, 
	tokens_known_calls INTEGER DEFAULT '0' NOT NULL, 
	input_tokens INTEGER DEFAULT '0' NOT NULL, 
	output_tokens INTEGER DEFAULT '0' NOT NULL, 
	total_tokens INTEGER DEFAULT '0' NOT NULL, 
	cached_input_tokens INTEGER DEFAULT '0' NOT NULL, 
	cache_write_tokens INTEGER DEFAULT '0' NOT NULL, 
	seconds_known_calls INTEGER DEFAULT '0' NOT NULL, 
	cost_usd FLOAT DEFAULT '0' NOT NULL, 
	seconds FLOAT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (batch, minute, model, upstream, role, cause, basis, slot)
)
 WITHOUT ROWID

;
INSERT INTO "call_usage" VALUES('',16,'','u','agent','','unknown',0,4,0,0,0,0,0,0,0,0,0,0.0,0.0);
INSERT INTO "call_usage" VALUES('',28333333,'','u','agent','','stated',0,4,0,0,0,0,0,0,0,0,4,0.0,1.20000004768371582031e+00);
INSERT INTO "call_usage" VALUES('',28333333,'gpt-5-x','openai','agent','quota','none',0,4,4,4,4,28,32,60,12,16,4,0.0,1.20000004768371582031e+00);
INSERT INTO "call_usage" VALUES('b0',16,'','u','agent','','unknown',0,1,0,0,0,0,0,0,0,0,0,0.0,0.0);
INSERT INTO "call_usage" VALUES('b0',28333333,'','u','agent','','stated',0,1,0,0,0,0,0,0,0,0,1,0.0,3.00000011920928955078e-01);
INSERT INTO "call_usage" VALUES('b0',28333333,'gpt-5-x','openai','agent','quota','none',0,1,1,1,1,7,8,15,3,4,1,0.0,3.00000011920928955078e-01);
INSERT INTO "call_usage" VALUES('b1',16,'','u','agent','','unknown',0,2,0,0,0,0,0,0,0,0,0,0.0,0.0);
INSERT INTO "call_usage" VALUES('b1',28333333,'','u','agent','','stated',0,2,0,0,0,0,0,0,0,0,2,0.0,6.00000023841857910156e-01);
INSERT INTO "call_usage" VALUES('b1',28333333,'gpt-5-x','openai','agent','quota','none',0,2,2,2,2,14,16,30,6,8,2,0.0,6.00000023841857910156e-01);
INSERT INTO "call_usage" VALUES('b2',16,'','u','agent','','unknown',0,1,0,0,0,0,0,0,0,0,0,0.0,0.0);
INSERT INTO "call_usage" VALUES('b2',28333333,'','u','agent','','stated',0,1,0,0,0,0,0,0,0,0,1,0.0,3.00000011920928955078e-01);
INSERT INTO "call_usage" VALUES('b2',28333333,'gpt-5-x','openai','agent','quota','none',0,1,1,1,1,7,8,15,3,4,1,0.0,3.00000011920928955078e-01);
CREATE TABLE closings (
	rollout_id VARCHAR(200) NOT NULL, 
	number INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	PRIMARY KEY (rollout_id)
)
 WITHOUT ROWID

;
INSERT INTO "closings" VALUES('!',1,9.9);
INSERT INTO "closings" VALUES('a ',2,9.9);
INSERT INTO "closings" VALUES('é',4,77.7);
INSERT INTO "closings" VALUES('～',3,9.9);
CREATE TABLE events (
	id INTEGER NOT NULL, 
	kind VARCHAR(24) NOT NULL, 
	rollout_id VARCHAR(200), 
	batch VARCHAR(200), 
	at FLOAT NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "events" VALUES(1,'exchange_failed','!',NULL,1700000001.3,'{"exchange":"9c2799c28a843d520a031382","status":429,"subcategory":"quota","transient":false}');
INSERT INTO "events" VALUES(2,'verdict_given','!','b0',1.70000000012345600132e+09,'{"fingerprint":null,"health":"healthy","scoreable":"no","subcategory":null,"validity":null,"validity_checks":[]}');
INSERT INTO "events" VALUES(3,'exchange_failed','A/b',NULL,1.70000000144285702704e+09,'{"exchange":"6234790a9f76fb615ec94a2a","status":429,"subcategory":"quota","transient":false}');
INSERT INTO "events" VALUES(4,'verdict_given','A/b','b1',1.70000000012345600132e+09,'{"fingerprint":"auth:401","health":"api_error","scoreable":"no","subcategory":"auth","validity":null,"validity_checks":[]}');
INSERT INTO "events" VALUES(5,'breaker_opened','A/b','b1',1.70000000012345600132e+09,'{"fingerprint":"auth:401","lane":"openai/gpt-5/key-0","streak":2,"tripped_by":["a","\u00e9"]}');
INSERT INTO "events" VALUES(6,'exchange_failed','a',NULL,1.70000000158571434026e+09,'{"exchange":"042a5f2e7634c4c80a75691b","status":429,"subcategory":"quota","transient":false}');
INSERT INTO "events" VALUES(7,'exchange_failed','a ',NULL,1.70000000172857141495e+09,'{"exchange":"4817e1d874b50ee02b37fe6e","status":429,"subcategory":"quota","transient":false}');
INSERT INTO "events" VALUES(8,'exchange_failed','a''"\',NULL,1.70000000187142848964e+09,'{"exchange":"2750d262892bcb72db54b9c3","status":429,"subcategory":"quota","transient":false}');
INSERT INTO "events" VALUES(9,'verdict_given','a''"\','b1',1.70000000012345600132e+09,'{"fingerprint":null,"health":"healthy","scoreable":"no","subcategory":null,"validity":null,"validity_checks":[]}');
INSERT INTO "events" VALUES(10,'exchange_failed','é',NULL,1.70000000201428556447e+09,'{"exchange":"2f47fff6109d3883bb50182f","status":429,"subcategory":"quota","transient":false}');
INSERT INTO "events" VALUES(11,'exchange_failed','～',NULL,1.70000000215714287756e+09,'{"exchange":"59ff971e884438fff880983e","status":429,"subcategory":"quota","transient":false}');
INSERT INTO "events" VALUES(12,'exchange_failed','😀',NULL,1700000002.3,'{"exchange":"e18ef4823d43d5da61cf5920","status":429,"subcategory":"quota","transient":false}');
CREATE TABLE exchanges (
	rollout_id VARCHAR(200) NOT NULL, 
	id VARCHAR(32) NOT NULL, 
	started_at FLOAT NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	method VARCHAR(16) NOT NULL, 
	role VARCHAR(40) NOT NULL, 
	upstream VARCHAR(64) NOT NULL, 
	api VARCHAR(64) NOT NULL, 
	model VARCHAR(200), 
	answered_model VARCHAR(200), 
	status INTEGER, 
	ending VARCHAR(20), 
	streamed BOOLEAN, 
	first_byte_s FLOAT, 
	first_token_s FLOAT, 
	duration_s FLOAT, 
	input_tokens INTEGER, 
	output_tokens INTEGER, 
	cached_input_tokens INTEGER, 
	cache_write_tokens INTEGER, 
	reasoning_tokens INTEGER, 
	total_tokens INTEGER, 
	input_total INTEGER, 
	output_total INTEGER, 
	usage_source VARCHAR(16) NOT NULL, 
	cost_usd FLOAT, 
	finish_reason VARCHAR(64), 
	tool_calls INTEGER, 
	output_seen BOOLEAN, 
	has_tools BOOLEAN, 
	subcategory VARCHAR(20), 
	reason VARCHAR(40), 
	transient BOOLEAN, 
	rule VARCHAR(64), 
	error_code VARCHAR(64), 
	retry_after_s FLOAT, 
	provider_request_id VARCHAR(128), 
	request_bytes INTEGER NOT NULL, 
	response_bytes INTEGER NOT NULL, 
	request_digest VARCHAR(32), 
	sdk_retry INTEGER, 
	attribution_source VARCHAR(20) NOT NULL, 
	key_digest VARCHAR(16), 
	injected BOOLEAN NOT NULL, 
	deaf VARCHAR(64), 
	content_seen BOOLEAN, 
	response_digest VARCHAR(32), 
	pending BOOLEAN, 
	selector_digest VARCHAR(32), 
	key_source VARCHAR(16), 
	model_ambiguous BOOLEAN, 
	held BOOLEAN, 
	output_limit INTEGER, 
	prompt_words INTEGER, 
	continues VARCHAR(32), 
	begun_elsewhere BOOLEAN, 
	written_call BOOLEAN, 
	fallback BOOLEAN, 
	served_by VARCHAR(64), 
	system_fingerprint VARCHAR(64), 
	weight_version VARCHAR(64), 
	answer_state VARCHAR(16), 
	inferred BOOLEAN, 
	output_digest VARCHAR(32), 
	output_reads_as VARCHAR(20), 
	held_s FLOAT, 
	billed_as VARCHAR(20), 
	PRIMARY KEY (rollout_id, id)
)
 WITHOUT ROWID

;
INSERT INTO "exchanges" VALUES('!','53a0d97e1781cabf4d91ef20',1700000002.0,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,3.00000000000000044408e-01,1000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',4.94065645841247e-324,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('!','9c2799c28a843d520a031382',1700000001.0,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5-x',429,'complete',1,NULL,NULL,3.00000000000000044408e-01,1000000000,2,3,4,5,6,7,8,'provider',4.94065645841247e-324,'stop',0,0,1,'quota','plan',0,'openai.quota','insufficient_quota',2.5,'req_1',10,20,'ab',1,'header','key-00000000',1,'line too long',0,'cd',1,'ef','override',1,1,4096,700,'x0',0,1,0,'DeepInfra','fp_1','41,42','read',1,'01','quota',1.25,'priority+tools');
INSERT INTO "exchanges" VALUES('!','a485cf7231db09926a4fc9c6',1001.0,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('A/b','6234790a9f76fb615ec94a2a',1.70000000114285707477e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5-x',429,'complete',1,NULL,NULL,3.00000000000000044408e-01,1000000000,2,3,4,5,6,7,8,'provider',4.94065645841247e-324,'stop',0,0,1,'quota','plan',0,'openai.quota','insufficient_quota',2.5,'req_1',10,20,'ab',1,'header','key-00000000',1,'line too long',0,'cd',1,'ef','override',1,1,4096,700,'x0',0,1,0,'DeepInfra','fp_1','41,42','read',1,'01','quota',1.25,'priority+tools');
INSERT INTO "exchanges" VALUES('A/b','b375c6e1e366769c663df680',1001.0,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('A/b','e502725b171623b3d473eecb',1.70000000214285707476e+09,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,3.00000000000000044408e-01,1000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',4.94065645841247e-324,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('a','042a5f2e7634c4c80a75691b',1.70000000128571438786e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5-x',429,'complete',1,NULL,NULL,3.00000000000000044408e-01,1000000000,2,3,4,5,6,7,8,'provider',4.94065645841247e-324,'stop',0,0,1,'quota','plan',0,'openai.quota','insufficient_quota',2.5,'req_1',10,20,'ab',1,'header','key-00000000',1,'line too long',0,'cd',1,'ef','override',1,1,4096,700,'x0',0,1,0,'DeepInfra','fp_1','41,42','read',1,'01','quota',1.25,'priority+tools');
INSERT INTO "exchanges" VALUES('a','cde7347338c922ea3bc542b1',1.7000000022857143879e+09,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,3.00000000000000044408e-01,1000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',4.94065645841247e-324,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('a','e7fc2e46e57ddc98fa831fc3',1001.0,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('a ','4817e1d874b50ee02b37fe6e',1.70000000142857146268e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5-x',429,'complete',1,NULL,NULL,3.00000000000000044408e-01,1000000000,2,3,4,5,6,7,8,'provider',4.94065645841247e-324,'stop',0,0,1,'quota','plan',0,'openai.quota','insufficient_quota',2.5,'req_1',10,20,'ab',1,'header','key-00000000',1,'line too long',0,'cd',1,'ef','override',1,1,4096,700,'x0',0,1,0,'DeepInfra','fp_1','41,42','read',1,'01','quota',1.25,'priority+tools');
INSERT INTO "exchanges" VALUES('a ','66c876fbdc3251ac1372525c',1001.0,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('a ','ce2ea58b978d83f50e6a6b36',1.70000000242857146268e+09,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,3.00000000000000044408e-01,1000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',4.94065645841247e-324,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('a''"\','2750d262892bcb72db54b9c3',1.70000000157142853738e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5-x',429,'complete',1,NULL,NULL,3.00000000000000044408e-01,1000000000,2,3,4,5,6,7,8,'provider',4.94065645841247e-324,'stop',0,0,1,'quota','plan',0,'openai.quota','insufficient_quota',2.5,'req_1',10,20,'ab',1,'header','key-00000000',1,'line too long',0,'cd',1,'ef','override',1,1,4096,700,'x0',0,1,0,'DeepInfra','fp_1','41,42','read',1,'01','quota',1.25,'priority+tools');
INSERT INTO "exchanges" VALUES('a''"\','8b38bfa9534db7f88831994b',1001.0,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('a''"\','96f32a4d4a8a644eafc4e987',1.70000000257142853737e+09,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,3.00000000000000044408e-01,1000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',4.94065645841247e-324,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('é','23009eb937b64c24819e2c3e',1.70000000271428561206e+09,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,3.00000000000000044408e-01,1000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',4.94065645841247e-324,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('é','2f47fff6109d3883bb50182f',1.70000000171428561207e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5-x',429,'complete',1,NULL,NULL,3.00000000000000044408e-01,1000000000,2,3,4,5,6,7,8,'provider',4.94065645841247e-324,'stop',0,0,1,'quota','plan',0,'openai.quota','insufficient_quota',2.5,'req_1',10,20,'ab',1,'header','key-00000000',1,'line too long',0,'cd',1,'ef','override',1,1,4096,700,'x0',0,1,0,'DeepInfra','fp_1','41,42','read',1,'01','quota',1.25,'priority+tools');
INSERT INTO "exchanges" VALUES('é','574b6d688f722532115ccd04',1001.0,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('～','47c11da18c9171d2c867a865',1001.0,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('～','59ff971e884438fff880983e',1.70000000185714292529e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5-x',429,'complete',1,NULL,NULL,3.00000000000000044408e-01,1000000000,2,3,4,5,6,7,8,'provider',4.94065645841247e-324,'stop',0,0,1,'quota','plan',0,'openai.quota','insufficient_quota',2.5,'req_1',10,20,'ab',1,'header','key-00000000',1,'line too long',0,'cd',1,'ef','override',1,1,4096,700,'x0',0,1,0,'DeepInfra','fp_1','41,42','read',1,'01','quota',1.25,'priority+tools');
INSERT INTO "exchanges" VALUES('～','f36cdf0760b319e4dc16b050',1.70000000285714292528e+09,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,3.00000000000000044408e-01,1000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',4.94065645841247e-324,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('😀','e18ef4823d43d5da61cf5920',1700000002.0,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5-x',429,'complete',1,NULL,NULL,3.00000000000000044408e-01,1000000000,2,3,4,5,6,7,8,'provider',4.94065645841247e-324,'stop',0,0,1,'quota','plan',0,'openai.quota','insufficient_quota',2.5,'req_1',10,20,'ab',1,'header','key-00000000',1,'line too long',0,'cd',1,'ef','override',1,1,4096,700,'x0',0,1,0,'DeepInfra','fp_1','41,42','read',1,'01','quota',1.25,'priority+tools');
INSERT INTO "exchanges" VALUES('😀','e7f9fd178202ee4b6e0e12dc',1700000003.0,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,3.00000000000000044408e-01,1000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',4.94065645841247e-324,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('😀','e9c407f3adc443b951d2fdc1',1001.0,'inference','POST','agent','u','opaque',NULL,NULL,NULL,'left_by_agent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'path',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE lane_minutes (
	minute INTEGER NOT NULL, 
	upstream VARCHAR(64) NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	key_digest VARCHAR(16) NOT NULL, 
	server VARCHAR(64) NOT NULL, 
	slot BIGINT NOT NULL, 
	answered INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	others INTEGER NOT NULL, 
	first_failed_at FLOAT, 
	last_failed_at FLOAT, 
	last_answered_at FLOAT NOT NULL, 
	own_key BOOLEAN NOT NULL, 
	failed TEXT NOT NULL, 
	votes TEXT NOT NULL, 
	PRIMARY KEY (minute, upstream, model, key_digest, server, slot)
)
 WITHOUT ROWID

;
INSERT INTO "lane_minutes" VALUES(16,'u','','','',801708957218600222,0,0,8,NULL,NULL,0.0,0,'{}','[{},{}]');
INSERT INTO "lane_minutes" VALUES(28333333,'openai','gpt-5','key-00000000','DeepInfra',801708957218600222,0,8,0,1700000001.0,1700000002.0,0.0,0,'{"quota":8}','[{},{},{},{},0,{}]');
INSERT INTO "lane_minutes" VALUES(28333333,'u','','','',801708957218600222,0,0,8,NULL,NULL,0.0,0,'{}','[{},{}]');
CREATE TABLE lane_probes (
	upstream VARCHAR(64) NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	at FLOAT NOT NULL, 
	PRIMARY KEY (upstream, model)
)
 WITHOUT ROWID

;
INSERT INTO "lane_probes" VALUES('openai','gpt-5',40.5);
CREATE TABLE open_calls (
	id VARCHAR(32) NOT NULL, 
	rollout_id VARCHAR(200) NOT NULL, 
	worker VARCHAR(32) NOT NULL, 
	started_at FLOAT NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	method VARCHAR(16) NOT NULL, 
	role VARCHAR(40) NOT NULL, 
	upstream VARCHAR(64) NOT NULL, 
	api VARCHAR(64) NOT NULL, 
	model VARCHAR(200), 
	attribution_source VARCHAR(20) NOT NULL, 
	key_digest VARCHAR(16), 
	PRIMARY KEY (id)
)
 WITHOUT ROWID

;
INSERT INTO "open_calls" VALUES('flying','a','w',1001.0,'inference','POST','agent','u','opaque','m','path',NULL);
CREATE TABLE pace_shares (
	upstream VARCHAR(64) NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	key_digest VARCHAR(16) NOT NULL, 
	worker VARCHAR(32) NOT NULL, 
	share FLOAT NOT NULL, 
	rollouts FLOAT NOT NULL, 
	waiting INTEGER NOT NULL, 
	longest_s FLOAT NOT NULL, 
	blocked_until FLOAT NOT NULL, 
	expires_at FLOAT NOT NULL, 
	in_flight FLOAT DEFAULT '0' NOT NULL, 
	answered FLOAT DEFAULT '0' NOT NULL, 
	rate FLOAT, 
	rate_at FLOAT, 
	at_once FLOAT, 
	at_once_at FLOAT, 
	PRIMARY KEY (upstream, model, key_digest, worker)
)
 WITHOUT ROWID

;
INSERT INTO "pace_shares" VALUES('openai','gpt-5','key-00000000','w',1.0,2.5,3,1.25,40.5,6.0,2.0,1.5,3.5,39.5,4.0,38.5);
CREATE TABLE reference_failures (
	rollout_id VARCHAR(200) NOT NULL, 
	exchange_id VARCHAR(32) NOT NULL, 
	series_id VARCHAR(32) NOT NULL, 
	PRIMARY KEY (rollout_id, exchange_id)
)
 WITHOUT ROWID

;
INSERT INTO "reference_failures" VALUES('a','x-s1','s1');
INSERT INTO "reference_failures" VALUES('a','x-s2','s2');
INSERT INTO "reference_failures" VALUES('a','x-s3','s3');
CREATE TABLE reference_series (
	id VARCHAR(32) NOT NULL, 
	upstream VARCHAR(64) NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	api VARCHAR(64) NOT NULL, 
	worker VARCHAR(32) NOT NULL, 
	started_at FLOAT NOT NULL, 
	ended_at FLOAT, 
	calls TEXT DEFAULT '[]' NOT NULL, 
	not_run VARCHAR(16), 
	way VARCHAR(16), 
	PRIMARY KEY (id)
)
 WITHOUT ROWID

;
INSERT INTO "reference_series" VALUES('s1','openai','gpt-5','openai.chat','w',10.5,11.25,'[{"answered":true,"ended_at":11.25,"exchange_id":"q","started_at":10.5}]',NULL,NULL);
INSERT INTO "reference_series" VALUES('s2','openai','gpt-5','openai.chat','w',20.5,20.5,'[]','no_key',NULL);
INSERT INTO "reference_series" VALUES('s3','openai','gpt-5','openai.chat','w',30.5,NULL,'[]',NULL,NULL);
CREATE TABLE reservations (
	id VARCHAR(32) NOT NULL, 
	rollout_id VARCHAR(200), 
	batch VARCHAR(200), 
	worker VARCHAR(32) NOT NULL, 
	tokens INTEGER NOT NULL, 
	cost_usd FLOAT NOT NULL, 
	seconds FLOAT NOT NULL, 
	PRIMARY KEY (id)
)
 WITHOUT ROWID

;
INSERT INTO "reservations" VALUES('flying','é','b2','w',7,0.5,1.25);
CREATE TABLE rollouts (
	id VARCHAR(200) NOT NULL, 
	batch VARCHAR(200), 
	task VARCHAR(200), 
	attempt INTEGER, 
	model VARCHAR(200), 
	upstream VARCHAR(64), 
	usage_channel VARCHAR(8) DEFAULT 'proxy' NOT NULL, 
	metadata TEXT, 
	registered BOOLEAN DEFAULT '0' NOT NULL, 
	created_at FLOAT NOT NULL, 
	gaps INTEGER DEFAULT '0' NOT NULL, 
	skipped TEXT, 
	outcome TEXT, 
	outcome_at FLOAT, 
	revoked_at FLOAT, 
	fault TEXT, 
	fault_calls INTEGER DEFAULT '0' NOT NULL, 
	fallbacks TEXT, 
	closed_at FLOAT, 
	closed_calls INTEGER, 
	agents VARCHAR(16), 
	validity VARCHAR(16), 
	max_steps VARCHAR(16), 
	repeat INTEGER, 
	repeats INTEGER, 
	content_filter VARCHAR(16), 
	group_revision INTEGER, 
	budget VARCHAR(16), 
	limit_reached TEXT, 
	reward_range VARCHAR(80), 
	client_cache BOOLEAN, 
	score_key VARCHAR(200), 
	PRIMARY KEY (id)
);
INSERT INTO "rollouts" VALUES('!',NULL,NULL,NULL,NULL,NULL,'proxy',NULL,0,1700000002.0,0,NULL,'{"rewards":{"reward":0.1},"status":"success"}',9.9,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "rollouts" VALUES('A/b','b1','t',1,'gpt-5','openai','proxy','{"z": 1, "a":"\u00e9"}',1,1.70000000214285707476e+09,0,NULL,NULL,NULL,NULL,'{"kind":"auth"}',0,'gpt-5-mini
o5',NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "rollouts" VALUES('a',NULL,NULL,NULL,NULL,NULL,'proxy',NULL,0,1.7000000022857143879e+09,2,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "rollouts" VALUES('a ','b0','t',3,'gpt-5','openai','proxy','{"z": 1, "a":"\u00e9"}',1,1.70000000242857146268e+09,0,NULL,'{"rewards":{"reward":0.1},"status":"success"}',9.9,NULL,'{"kind":"auth"}',0,'gpt-5-mini
o5',NULL,NULL,NULL,NULL,NULL,3,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL);
INSERT INTO "rollouts" VALUES('a''"\',NULL,NULL,NULL,NULL,NULL,'proxy',NULL,0,1.70000000257142853737e+09,0,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "rollouts" VALUES('é','b2','t',5,'gpt-5','openai','proxy','{"z": 1, "a":"\u00e9"}',1,1.70000000271428561206e+09,0,NULL,NULL,NULL,77.7,'{"kind":"auth"}',0,'gpt-5-mini
o5',NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,'{"at":1790000000.0,"by_others":null,"callers":9,"held_s":null,"limit":"calls","most":100,"own":10,"scope":"batch","spent":100}','[-1.0,1.0]',NULL,'style');
INSERT INTO "rollouts" VALUES('～',NULL,NULL,NULL,NULL,NULL,'proxy',NULL,0,1.70000000285714292528e+09,0,NULL,'{"rewards":{"reward":0.1},"status":"success"}',9.9,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "rollouts" VALUES('😀','b1','t',7,'gpt-5','openai','proxy','{"z": 1, "a":"\u00e9"}',1,1700000003.0,0,'skipped: breaker open on auth:401 after 2 rollouts in a row; fix the cause, then truezero breaker reset b1',NULL,NULL,NULL,'{"kind":"auth"}',0,'gpt-5-mini
o5',NULL,NULL,NULL,NULL,NULL,2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE server (
	name VARCHAR(40) NOT NULL, 
	value VARCHAR(200) NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "server" VALUES('created','6372656174656400000000000000000000000000000000000000000000000000');
INSERT INTO "server" VALUES('salt','73616C7400000000000000000000000000000000000000000000000000000000');
INSERT INTO "server" VALUES('keyring','6B657972696E6700000000000000000000000000000000000000000000000000');
INSERT INTO "server" VALUES('closing','4');
CREATE TABLE unjudged (
	rollout_id VARCHAR(200) NOT NULL, 
	batch VARCHAR(200), 
	change INTEGER NOT NULL, 
	PRIMARY KEY (rollout_id)
)
 WITHOUT ROWID

;
INSERT INTO "unjudged" VALUES('a',NULL,-379995055220435448);
INSERT INTO "unjudged" VALUES('a ','b0',3261031814881902237);
INSERT INTO "unjudged" VALUES('é','b2',193823207721711808);
INSERT INTO "unjudged" VALUES('～',NULL,-2712219104442093236);
INSERT INTO "unjudged" VALUES('😀','b1',-5664321069461833337);
CREATE TABLE verdicts (
	rollout_id VARCHAR(200) NOT NULL, 
	batch VARCHAR(200), 
	health VARCHAR(24) NOT NULL, 
	subcategory VARCHAR(20), 
	fingerprint VARCHAR(80), 
	cause VARCHAR(200), 
	lane VARCHAR(300), 
	provisional BOOLEAN NOT NULL, 
	scoreable VARCHAR(8) NOT NULL, 
	reward FLOAT, 
	input_tokens INTEGER, 
	output_tokens INTEGER, 
	total_tokens INTEGER, 
	cost_usd FLOAT, 
	price_table VARCHAR(40), 
	given_at FLOAT NOT NULL, 
	calls INTEGER DEFAULT '0' NOT NULL, 
	verdict TEXT NOT NULL, 
	result TEXT, 
	attributed_to VARCHAR(16), 
	validity TEXT, 
	summed_calls INTEGER, 
	tokens_known_calls INTEGER, 
	cost_known_calls INTEGER, 
	servings TEXT, 
	began_at FLOAT, 
	lost_s FLOAT, 
	held_s FLOAT, 
	unearned BOOLEAN, 
	counted INTEGER, 
	taken FLOAT, 
	stands_on TEXT, 
	PRIMARY KEY (rollout_id)
);
INSERT INTO "verdicts" VALUES('!','b0','healthy',NULL,NULL,NULL,NULL,0,'no',-0.5,0,NULL,NULL,7.99999999999999933386e-01,NULL,1.70000000012345600132e+09,3,'{"rollout_id":"!"}',NULL,NULL,NULL,NULL,NULL,NULL,'[["openai","gpt-5","gpt-5-x",null,"fp_0"]]',1700000002.0,NULL,NULL,NULL,6976391530209305033,0.1,NULL);
INSERT INTO "verdicts" VALUES('A/b','b1','api_error','auth','auth:401',NULL,NULL,0,'no',-0.5,0,NULL,NULL,7.99999999999999933386e-01,NULL,1.70000000012345600132e+09,3,'{"rollout_id":"A/b"}','{}',NULL,NULL,NULL,NULL,NULL,'[["openai","gpt-5","gpt-5-x",null,"fp_1"]]',1.70000000214285707476e+09,NULL,NULL,1,6093977844632675903,-0.5,'{"references":{"x":{"api":"openai.chat","id":"s0","model":"gpt-5","started_at":1.0,"upstream":"openai"}},"unattributed_calls":1}');
INSERT INTO "verdicts" VALUES('a','b2','api_error','auth','auth:401',NULL,NULL,1,'no',-0.5,0,NULL,NULL,7.99999999999999933386e-01,NULL,1.70000000012345600132e+09,3,'{"rollout_id":"a"}','{}',NULL,NULL,NULL,NULL,NULL,'[["openai","gpt-5","gpt-5-x",null,"fp_0"]]',1.7000000022857143879e+09,NULL,NULL,NULL,6979764609411225721,NULL,'{"references":{"x":{"api":"openai.chat","id":"s0","model":"gpt-5","started_at":1.0,"upstream":"openai"}},"unattributed_calls":2}');
INSERT INTO "verdicts" VALUES('a''"\','b1','healthy',NULL,NULL,NULL,NULL,0,'no',-0.5,0,NULL,NULL,7.99999999999999933386e-01,NULL,1.70000000012345600132e+09,3,'{"rollout_id":"a''\"\\"}',NULL,NULL,NULL,NULL,NULL,NULL,'[["openai","gpt-5","gpt-5-x",null,"fp_0"]]',1.70000000257142853737e+09,NULL,NULL,NULL,360537879888151645,-0.5,'{"passes_tokens":812.5,"unattributed_calls":4}');
INSERT INTO "verdicts" VALUES('é','b2','api_error','auth','auth:401',NULL,NULL,1,'no',-0.5,0,NULL,NULL,7.99999999999999933386e-01,NULL,1.70000000012345600132e+09,-1,'{"rollout_id":"\u00e9"}','{}',NULL,NULL,NULL,NULL,NULL,'[["openai","gpt-5","gpt-5-x",null,"fp_1"]]',1.70000000271428561206e+09,NULL,NULL,NULL,6516677804648049246,NULL,'{"references":{"x":{"api":"openai.chat","id":"s0","model":"gpt-5","started_at":1.0,"upstream":"openai"}},"unattributed_calls":5}');
INSERT INTO "verdicts" VALUES('～','b0','api_error','auth','auth:401',NULL,NULL,1,'no',-0.5,0,NULL,NULL,7.99999999999999933386e-01,NULL,1.70000000012345600132e+09,3,'{"rollout_id":"\uff5e"}','{}',NULL,NULL,NULL,NULL,NULL,'[["openai","gpt-5","gpt-5-x",null,"fp_0"]]',1.70000000285714292528e+09,NULL,NULL,NULL,6979764609411225721,NULL,'{"references":{"x":{"api":"openai.chat","id":"s0","model":"gpt-5","started_at":1.0,"upstream":"openai"}},"unattributed_calls":6}');
CREATE TABLE waiting_calls (
	id VARCHAR(32) NOT NULL, 
	kind VARCHAR(8) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	since FLOAT NOT NULL, 
	worker VARCHAR(32) NOT NULL, 
	PRIMARY KEY (id)
)
 WITHOUT ROWID

;
INSERT INTO "waiting_calls" VALUES('waiting','rollout','é',5001.0,'w');
CREATE TABLE workers (
	id VARCHAR(32) NOT NULL, 
	host VARCHAR(200) NOT NULL, 
	pid INTEGER NOT NULL, 
	seen_at FLOAT NOT NULL, 
	closed_up_to INTEGER, 
	still_closing TEXT, 
	PRIMARY KEY (id)
);
INSERT INTO "workers" VALUES('w','here',1,5000.25,NULL,NULL);
CREATE INDEX rollouts_batch ON rollouts (batch, created_at, id);
CREATE INDEX rollouts_created ON rollouts (created_at, id);
CREATE INDEX rollouts_group ON rollouts (batch, task, created_at, id);
CREATE INDEX rollouts_repeat ON rollouts (batch, task, repeat, attempt, repeats, id);
CREATE INDEX rollouts_task ON rollouts (task, created_at, id);
CREATE INDEX rollouts_drilled ON rollouts (id) WHERE fault IS NOT NULL;
CREATE INDEX exchanges_started ON exchanges (started_at);
CREATE INDEX exchanges_failed ON exchanges (started_at) WHERE (subcategory IS NOT NULL OR (answer_state = 'unread' AND kind IN ('inference', 'continuation')));
CREATE INDEX lane_minutes_lane ON lane_minutes (upstream, model, key_digest, minute);
CREATE INDEX open_calls_worker ON open_calls (worker);
CREATE INDEX open_calls_rollout ON open_calls (rollout_id);
CREATE INDEX closings_number ON closings (number);
CREATE INDEX verdicts_subcategory ON verdicts (subcategory, began_at, rollout_id) WHERE subcategory IS NOT NULL;
CREATE INDEX verdicts_total_tokens ON verdicts (total_tokens, began_at, rollout_id) WHERE total_tokens IS NOT NULL;
CREATE INDEX verdicts_fingerprint ON verdicts (fingerprint, began_at, rollout_id);
CREATE INDEX verdicts_batch_total_tokens ON verdicts (batch, total_tokens, began_at, rollout_id) WHERE total_tokens IS NOT NULL;
CREATE INDEX verdicts_cost_usd ON verdicts (cost_usd, began_at, rollout_id) WHERE cost_usd IS NOT NULL;
CREATE INDEX verdicts_batch_cost_usd ON verdicts (batch, cost_usd, began_at, rollout_id) WHERE cost_usd IS NOT NULL;
CREATE INDEX verdicts_batch_health ON verdicts (batch, health, began_at, rollout_id);
CREATE INDEX verdicts_batch_fingerprint ON verdicts (batch, fingerprint, began_at, rollout_id) WHERE fingerprint IS NOT NULL;
CREATE INDEX verdicts_unscored ON verdicts (batch, began_at, rollout_id) WHERE (provisional OR scoreable <> 'yes' OR reward IS NULL);
CREATE INDEX verdicts_batch_subcategory ON verdicts (batch, subcategory, began_at, rollout_id) WHERE subcategory IS NOT NULL;
CREATE INDEX verdicts_reward ON verdicts (reward, began_at, rollout_id) WHERE reward IS NOT NULL;
CREATE INDEX verdicts_counted ON verdicts (rollout_id, counted, scoreable, provisional, reward, input_tokens, output_tokens, total_tokens, summed_calls, tokens_known_calls, cost_known_calls, cost_usd, lost_s, held_s, taken);
CREATE INDEX verdicts_health ON verdicts (health, began_at, rollout_id);
CREATE INDEX verdicts_batch_reward ON verdicts (batch, reward, began_at, rollout_id) WHERE reward IS NOT NULL;
CREATE INDEX reference_series_started ON reference_series (started_at);
CREATE INDEX reference_series_lane ON reference_series (upstream, model, started_at);
CREATE INDEX reference_failures_series ON reference_failures (series_id);
CREATE INDEX asked_ways_at ON asked_ways (at);
CREATE INDEX asked_ways_lane ON asked_ways (upstream, model, at);
CREATE INDEX events_at ON events (at);
CREATE INDEX unjudged_batch ON unjudged (batch);
CREATE INDEX batches_newest ON batches (last_at, batch);
CREATE INDEX budgets_batch ON budgets (batch);
CREATE INDEX reservations_rollout ON reservations (rollout_id);
CREATE INDEX reservations_worker ON reservations (worker);
CREATE INDEX reservations_batch ON reservations (batch);
CREATE INDEX waiting_calls_worker ON waiting_calls (worker);
CREATE INDEX waiting_calls_budget ON waiting_calls (kind, name, since);
CREATE TRIGGER exchange_added AFTER INSERT ON exchanges BEGIN INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) VALUES (coalesce((SELECT batch FROM rollouts WHERE id = NEW.rollout_id), ''), CAST(NEW.started_at / 60 AS INTEGER), coalesce(NEW.answered_model, NEW.model, ''), NEW.upstream, NEW.role, coalesce(NEW.subcategory, ''), CASE WHEN NEW.ending IS NULL OR NEW.pending IS TRUE OR NEW.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN NEW.subcategory IS NOT NULL AND (NEW.status IS NULL OR NEW.status >= 400) THEN 'unused' WHEN (CASE WHEN NEW.cost_usd BETWEEN 0 AND 1000000 THEN NEW.cost_usd END) IS NOT NULL THEN 'stated' WHEN NEW.billed_as IS NOT NULL THEN 'special' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) IS NULL OR (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, 1, CASE WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN coalesce((CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) + (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END), (CASE WHEN NEW.total_tokens BETWEEN 0 AND 1000000000 THEN NEW.total_tokens END)) IS NULL THEN 0 ELSE 1 END, coalesce((CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END), 0), coalesce((CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END), 0), coalesce(coalesce((CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) + (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END), (CASE WHEN NEW.total_tokens BETWEEN 0 AND 1000000000 THEN NEW.total_tokens END)), 0), coalesce((CASE WHEN NEW.cached_input_tokens BETWEEN 0 AND 1000000000 THEN NEW.cached_input_tokens END), 0), coalesce((CASE WHEN NEW.cache_write_tokens BETWEEN 0 AND 1000000000 THEN NEW.cache_write_tokens END), 0), CASE WHEN (CASE WHEN NEW.duration_s BETWEEN 0 AND 1000000000 THEN NEW.duration_s END) IS NULL THEN 0 ELSE 1 END, coalesce(round((CASE WHEN NEW.cost_usd BETWEEN 0 AND 1000000 THEN NEW.cost_usd END) * 1073741824.0) / 1073741824.0, 0), coalesce(round((CASE WHEN NEW.duration_s BETWEEN 0 AND 1000000000 THEN NEW.duration_s END) * 16777216.0) / 16777216.0, 0)) ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO unjudged (rollout_id, batch, change) SELECT id, batch, random() FROM rollouts WHERE id = NEW.rollout_id AND NOT EXISTS (SELECT 1 FROM verdicts WHERE rollout_id = NEW.rollout_id AND NOT provisional) ON CONFLICT (rollout_id) DO UPDATE SET change = excluded.change, batch = excluded.batch; END;
CREATE TRIGGER exchange_changed AFTER UPDATE ON exchanges BEGIN INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) VALUES (coalesce((SELECT batch FROM rollouts WHERE id = OLD.rollout_id), ''), CAST(OLD.started_at / 60 AS INTEGER), coalesce(OLD.answered_model, OLD.model, ''), OLD.upstream, OLD.role, coalesce(OLD.subcategory, ''), CASE WHEN OLD.ending IS NULL OR OLD.pending IS TRUE OR OLD.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN OLD.subcategory IS NOT NULL AND (OLD.status IS NULL OR OLD.status >= 400) THEN 'unused' WHEN (CASE WHEN OLD.cost_usd BETWEEN 0 AND 1000000 THEN OLD.cost_usd END) IS NOT NULL THEN 'stated' WHEN OLD.billed_as IS NOT NULL THEN 'special' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) IS NULL OR (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, -(1), -(CASE WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN coalesce((CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) + (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END), (CASE WHEN OLD.total_tokens BETWEEN 0 AND 1000000000 THEN OLD.total_tokens END)) IS NULL THEN 0 ELSE 1 END), -(coalesce((CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END), 0)), -(coalesce((CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END), 0)), -(coalesce(coalesce((CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) + (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END), (CASE WHEN OLD.total_tokens BETWEEN 0 AND 1000000000 THEN OLD.total_tokens END)), 0)), -(coalesce((CASE WHEN OLD.cached_input_tokens BETWEEN 0 AND 1000000000 THEN OLD.cached_input_tokens END), 0)), -(coalesce((CASE WHEN OLD.cache_write_tokens BETWEEN 0 AND 1000000000 THEN OLD.cache_write_tokens END), 0)), -(CASE WHEN (CASE WHEN OLD.duration_s BETWEEN 0 AND 1000000000 THEN OLD.duration_s END) IS NULL THEN 0 ELSE 1 END), -(coalesce(round((CASE WHEN OLD.cost_usd BETWEEN 0 AND 1000000 THEN OLD.cost_usd END) * 1073741824.0) / 1073741824.0, 0)), -(coalesce(round((CASE WHEN OLD.duration_s BETWEEN 0 AND 1000000000 THEN OLD.duration_s END) * 16777216.0) / 16777216.0, 0))) ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) VALUES (coalesce((SELECT batch FROM rollouts WHERE id = NEW.rollout_id), ''), CAST(NEW.started_at / 60 AS INTEGER), coalesce(NEW.answered_model, NEW.model, ''), NEW.upstream, NEW.role, coalesce(NEW.subcategory, ''), CASE WHEN NEW.ending IS NULL OR NEW.pending IS TRUE OR NEW.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN NEW.subcategory IS NOT NULL AND (NEW.status IS NULL OR NEW.status >= 400) THEN 'unused' WHEN (CASE WHEN NEW.cost_usd BETWEEN 0 AND 1000000 THEN NEW.cost_usd END) IS NOT NULL THEN 'stated' WHEN NEW.billed_as IS NOT NULL THEN 'special' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) IS NULL OR (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, 1, CASE WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN coalesce((CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) + (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END), (CASE WHEN NEW.total_tokens BETWEEN 0 AND 1000000000 THEN NEW.total_tokens END)) IS NULL THEN 0 ELSE 1 END, coalesce((CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END), 0), coalesce((CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END), 0), coalesce(coalesce((CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) + (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END), (CASE WHEN NEW.total_tokens BETWEEN 0 AND 1000000000 THEN NEW.total_tokens END)), 0), coalesce((CASE WHEN NEW.cached_input_tokens BETWEEN 0 AND 1000000000 THEN NEW.cached_input_tokens END), 0), coalesce((CASE WHEN NEW.cache_write_tokens BETWEEN 0 AND 1000000000 THEN NEW.cache_write_tokens END), 0), CASE WHEN (CASE WHEN NEW.duration_s BETWEEN 0 AND 1000000000 THEN NEW.duration_s END) IS NULL THEN 0 ELSE 1 END, coalesce(round((CASE WHEN NEW.cost_usd BETWEEN 0 AND 1000000 THEN NEW.cost_usd END) * 1073741824.0) / 1073741824.0, 0), coalesce(round((CASE WHEN NEW.duration_s BETWEEN 0 AND 1000000000 THEN NEW.duration_s END) * 16777216.0) / 16777216.0, 0)) ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO unjudged (rollout_id, batch, change) SELECT id, batch, random() FROM rollouts WHERE id = NEW.rollout_id AND NOT EXISTS (SELECT 1 FROM verdicts WHERE rollout_id = NEW.rollout_id AND NOT provisional) ON CONFLICT (rollout_id) DO UPDATE SET change = excluded.change, batch = excluded.batch; END;
CREATE TRIGGER exchange_removed AFTER DELETE ON exchanges BEGIN INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) VALUES (coalesce((SELECT batch FROM rollouts WHERE id = OLD.rollout_id), ''), CAST(OLD.started_at / 60 AS INTEGER), coalesce(OLD.answered_model, OLD.model, ''), OLD.upstream, OLD.role, coalesce(OLD.subcategory, ''), CASE WHEN OLD.ending IS NULL OR OLD.pending IS TRUE OR OLD.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN OLD.subcategory IS NOT NULL AND (OLD.status IS NULL OR OLD.status >= 400) THEN 'unused' WHEN (CASE WHEN OLD.cost_usd BETWEEN 0 AND 1000000 THEN OLD.cost_usd END) IS NOT NULL THEN 'stated' WHEN OLD.billed_as IS NOT NULL THEN 'special' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) IS NULL OR (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, -(1), -(CASE WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN coalesce((CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) + (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END), (CASE WHEN OLD.total_tokens BETWEEN 0 AND 1000000000 THEN OLD.total_tokens END)) IS NULL THEN 0 ELSE 1 END), -(coalesce((CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END), 0)), -(coalesce((CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END), 0)), -(coalesce(coalesce((CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) + (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END), (CASE WHEN OLD.total_tokens BETWEEN 0 AND 1000000000 THEN OLD.total_tokens END)), 0)), -(coalesce((CASE WHEN OLD.cached_input_tokens BETWEEN 0 AND 1000000000 THEN OLD.cached_input_tokens END), 0)), -(coalesce((CASE WHEN OLD.cache_write_tokens BETWEEN 0 AND 1000000000 THEN OLD.cache_write_tokens END), 0)), -(CASE WHEN (CASE WHEN OLD.duration_s BETWEEN 0 AND 1000000000 THEN OLD.duration_s END) IS NULL THEN 0 ELSE 1 END), -(coalesce(round((CASE WHEN OLD.cost_usd BETWEEN 0 AND 1000000 THEN OLD.cost_usd END) * 1073741824.0) / 1073741824.0, 0)), -(coalesce(round((CASE WHEN OLD.duration_s BETWEEN 0 AND 1000000000 THEN OLD.duration_s END) * 16777216.0) / 16777216.0, 0))) ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; END;
CREATE TRIGGER call_opened AFTER INSERT ON open_calls BEGIN INSERT INTO unjudged (rollout_id, batch, change) SELECT id, batch, random() FROM rollouts WHERE id = NEW.rollout_id AND NOT EXISTS (SELECT 1 FROM verdicts WHERE rollout_id = NEW.rollout_id AND NOT provisional) ON CONFLICT (rollout_id) DO UPDATE SET change = excluded.change, batch = excluded.batch; END;
CREATE TRIGGER rollout_added AFTER INSERT ON rollouts BEGIN INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) SELECT '', CAST(c.started_at / 60 AS INTEGER), coalesce(c.answered_model, c.model, ''), c.upstream, c.role, coalesce(c.subcategory, ''), CASE WHEN c.ending IS NULL OR c.pending IS TRUE OR c.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN c.subcategory IS NOT NULL AND (c.status IS NULL OR c.status >= 400) THEN 'unused' WHEN (CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) IS NOT NULL THEN 'stated' WHEN c.billed_as IS NOT NULL THEN 'special' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL OR (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, -(1), -(CASE WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)) IS NULL THEN 0 ELSE 1 END), -(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END), 0)), -(coalesce((CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), 0)), -(coalesce(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)), 0)), -(coalesce((CASE WHEN c.cached_input_tokens BETWEEN 0 AND 1000000000 THEN c.cached_input_tokens END), 0)), -(coalesce((CASE WHEN c.cache_write_tokens BETWEEN 0 AND 1000000000 THEN c.cache_write_tokens END), 0)), -(CASE WHEN (CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) IS NULL THEN 0 ELSE 1 END), -(coalesce(round((CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) * 1073741824.0) / 1073741824.0, 0)), -(coalesce(round((CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) * 16777216.0) / 16777216.0, 0)) FROM exchanges AS c WHERE c.rollout_id = NEW.id AND '' <> coalesce(NEW.batch, '') ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) SELECT coalesce(NEW.batch, ''), CAST(c.started_at / 60 AS INTEGER), coalesce(c.answered_model, c.model, ''), c.upstream, c.role, coalesce(c.subcategory, ''), CASE WHEN c.ending IS NULL OR c.pending IS TRUE OR c.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN c.subcategory IS NOT NULL AND (c.status IS NULL OR c.status >= 400) THEN 'unused' WHEN (CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) IS NOT NULL THEN 'stated' WHEN c.billed_as IS NOT NULL THEN 'special' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL OR (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, 1, CASE WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)) IS NULL THEN 0 ELSE 1 END, coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END), 0), coalesce((CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), 0), coalesce(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)), 0), coalesce((CASE WHEN c.cached_input_tokens BETWEEN 0 AND 1000000000 THEN c.cached_input_tokens END), 0), coalesce((CASE WHEN c.cache_write_tokens BETWEEN 0 AND 1000000000 THEN c.cache_write_tokens END), 0), CASE WHEN (CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) IS NULL THEN 0 ELSE 1 END, coalesce(round((CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) * 1073741824.0) / 1073741824.0, 0), coalesce(round((CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) * 16777216.0) / 16777216.0, 0) FROM exchanges AS c WHERE c.rollout_id = NEW.id AND '' <> coalesce(NEW.batch, '') ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO unjudged (rollout_id, batch, change) SELECT id, batch, random() FROM rollouts WHERE id = NEW.id AND NOT EXISTS (SELECT 1 FROM verdicts WHERE rollout_id = NEW.id AND NOT provisional) ON CONFLICT (rollout_id) DO UPDATE SET change = excluded.change, batch = excluded.batch; END;
CREATE TRIGGER rollout_changed AFTER UPDATE OF batch, task, repeat, attempt, model, upstream, usage_channel, gaps, skipped, outcome, fallbacks, closed_at, agents, validity, max_steps ON rollouts BEGIN INSERT INTO unjudged (rollout_id, batch, change) SELECT id, batch, random() FROM rollouts WHERE id = NEW.id AND NOT EXISTS (SELECT 1 FROM verdicts WHERE rollout_id = NEW.id AND NOT provisional) ON CONFLICT (rollout_id) DO UPDATE SET change = excluded.change, batch = excluded.batch; END;
CREATE TRIGGER rollout_moved AFTER UPDATE OF batch ON rollouts WHEN OLD.batch IS NOT NEW.batch BEGIN INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) SELECT coalesce(OLD.batch, ''), CAST(c.started_at / 60 AS INTEGER), coalesce(c.answered_model, c.model, ''), c.upstream, c.role, coalesce(c.subcategory, ''), CASE WHEN c.ending IS NULL OR c.pending IS TRUE OR c.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN c.subcategory IS NOT NULL AND (c.status IS NULL OR c.status >= 400) THEN 'unused' WHEN (CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) IS NOT NULL THEN 'stated' WHEN c.billed_as IS NOT NULL THEN 'special' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL OR (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, -(1), -(CASE WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)) IS NULL THEN 0 ELSE 1 END), -(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END), 0)), -(coalesce((CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), 0)), -(coalesce(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)), 0)), -(coalesce((CASE WHEN c.cached_input_tokens BETWEEN 0 AND 1000000000 THEN c.cached_input_tokens END), 0)), -(coalesce((CASE WHEN c.cache_write_tokens BETWEEN 0 AND 1000000000 THEN c.cache_write_tokens END), 0)), -(CASE WHEN (CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) IS NULL THEN 0 ELSE 1 END), -(coalesce(round((CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) * 1073741824.0) / 1073741824.0, 0)), -(coalesce(round((CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) * 16777216.0) / 16777216.0, 0)) FROM exchanges AS c WHERE c.rollout_id = NEW.id AND coalesce(OLD.batch, '') <> coalesce(NEW.batch, '') ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) SELECT coalesce(NEW.batch, ''), CAST(c.started_at / 60 AS INTEGER), coalesce(c.answered_model, c.model, ''), c.upstream, c.role, coalesce(c.subcategory, ''), CASE WHEN c.ending IS NULL OR c.pending IS TRUE OR c.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN c.subcategory IS NOT NULL AND (c.status IS NULL OR c.status >= 400) THEN 'unused' WHEN (CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) IS NOT NULL THEN 'stated' WHEN c.billed_as IS NOT NULL THEN 'special' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL OR (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, 1, CASE WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)) IS NULL THEN 0 ELSE 1 END, coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END), 0), coalesce((CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), 0), coalesce(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)), 0), coalesce((CASE WHEN c.cached_input_tokens BETWEEN 0 AND 1000000000 THEN c.cached_input_tokens END), 0), coalesce((CASE WHEN c.cache_write_tokens BETWEEN 0 AND 1000000000 THEN c.cache_write_tokens END), 0), CASE WHEN (CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) IS NULL THEN 0 ELSE 1 END, coalesce(round((CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) * 1073741824.0) / 1073741824.0, 0), coalesce(round((CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) * 16777216.0) / 16777216.0, 0) FROM exchanges AS c WHERE c.rollout_id = NEW.id AND coalesce(OLD.batch, '') <> coalesce(NEW.batch, '') ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; END;
CREATE TRIGGER rollout_removed AFTER DELETE ON rollouts BEGIN INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) SELECT coalesce(OLD.batch, ''), CAST(c.started_at / 60 AS INTEGER), coalesce(c.answered_model, c.model, ''), c.upstream, c.role, coalesce(c.subcategory, ''), CASE WHEN c.ending IS NULL OR c.pending IS TRUE OR c.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN c.subcategory IS NOT NULL AND (c.status IS NULL OR c.status >= 400) THEN 'unused' WHEN (CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) IS NOT NULL THEN 'stated' WHEN c.billed_as IS NOT NULL THEN 'special' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL OR (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, -(1), -(CASE WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)) IS NULL THEN 0 ELSE 1 END), -(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END), 0)), -(coalesce((CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), 0)), -(coalesce(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)), 0)), -(coalesce((CASE WHEN c.cached_input_tokens BETWEEN 0 AND 1000000000 THEN c.cached_input_tokens END), 0)), -(coalesce((CASE WHEN c.cache_write_tokens BETWEEN 0 AND 1000000000 THEN c.cache_write_tokens END), 0)), -(CASE WHEN (CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) IS NULL THEN 0 ELSE 1 END), -(coalesce(round((CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) * 1073741824.0) / 1073741824.0, 0)), -(coalesce(round((CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) * 16777216.0) / 16777216.0, 0)) FROM exchanges AS c WHERE c.rollout_id = OLD.id AND coalesce(OLD.batch, '') <> '' ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) SELECT '', CAST(c.started_at / 60 AS INTEGER), coalesce(c.answered_model, c.model, ''), c.upstream, c.role, coalesce(c.subcategory, ''), CASE WHEN c.ending IS NULL OR c.pending IS TRUE OR c.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN c.subcategory IS NOT NULL AND (c.status IS NULL OR c.status >= 400) THEN 'unused' WHEN (CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) IS NOT NULL THEN 'stated' WHEN c.billed_as IS NOT NULL THEN 'special' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL OR (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, 1, CASE WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)) IS NULL THEN 0 ELSE 1 END, coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END), 0), coalesce((CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), 0), coalesce(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)), 0), coalesce((CASE WHEN c.cached_input_tokens BETWEEN 0 AND 1000000000 THEN c.cached_input_tokens END), 0), coalesce((CASE WHEN c.cache_write_tokens BETWEEN 0 AND 1000000000 THEN c.cache_write_tokens END), 0), CASE WHEN (CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) IS NULL THEN 0 ELSE 1 END, coalesce(round((CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) * 1073741824.0) / 1073741824.0, 0), coalesce(round((CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) * 16777216.0) / 16777216.0, 0) FROM exchanges AS c WHERE c.rollout_id = OLD.id AND coalesce(OLD.batch, '') <> '' ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; DELETE FROM unjudged WHERE rollout_id = OLD.id; END;
COMMIT;
