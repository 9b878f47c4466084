BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0023');
CREATE TABLE batch_notes (
	batch VARCHAR(200) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	at FLOAT NOT NULL, 
	rollout_id VARCHAR(200) NOT NULL, 
	PRIMARY KEY (batch, kind, at, rollout_id)
)
 WITHOUT ROWID

;
INSERT INTO "batch_notes" VALUES('old','problem',1.79588188931455016135e+09,'dead');
INSERT INTO "batch_notes" VALUES('old','problem',1.79588188936293411258e+09,'passed-dead');
INSERT INTO "batch_notes" VALUES('old','problem',1.79588188939095354081e+09,'silent');
INSERT INTO "batch_notes" VALUES('old','problem',1.79588188941269373891e+09,'running');
CREATE TABLE batch_runs (
	batch VARCHAR(200) NOT NULL, 
	run VARCHAR(200) NOT NULL, 
	begun_at FLOAT NOT NULL, 
	ended_at FLOAT, 
	PRIMARY KEY (batch, run)
)
 WITHOUT ROWID

;
CREATE TABLE batch_servings (
	batch VARCHAR(200) NOT NULL, 
	digest VARCHAR(32) NOT NULL, 
	servings TEXT NOT NULL, 
	rollouts INTEGER NOT NULL, 
	examples TEXT NOT NULL, 
	PRIMARY KEY (batch, digest)
)
 WITHOUT ROWID

;
INSERT INTO "batch_servings" VALUES('old','4afa9c3926b61af0b9484490384b0330','[["openai","gpt-5","gpt-5",null,null]]',3,'["running", "solved", "zero"]');
CREATE TABLE batch_shapes (
	batch VARCHAR(200) NOT NULL, 
	digest VARCHAR(32) NOT NULL, 
	repeats INTEGER NOT NULL, 
	kept INTEGER NOT NULL, 
	score TEXT NOT NULL, 
	lanes TEXT NOT NULL, 
	tasks INTEGER NOT NULL, 
	PRIMARY KEY (batch, digest)
)
 WITHOUT ROWID

;
INSERT INTO "batch_shapes" VALUES('old','0aa6fe40621e09a0d0071984c83f1af2',1,1,'1208925819614629174706176','[]',1);
INSERT INTO "batch_shapes" VALUES('old','6a3924f4924ccb44d7b4b196710cf8c6',1,0,'0','["-/gpt-5"]',1);
INSERT INTO "batch_shapes" VALUES('old','6a64485e834e193a9dd71b10c27eb121',1,0,'0','["openai/gpt-5"]',2);
INSERT INTO "batch_shapes" VALUES('old','8cce9acbcabde4923dd8f3be54e0711d',1,1,'0','[]',1);
INSERT INTO "batch_shapes" VALUES('old','b627961ea1bf6c830eb2fba90a36cde5',1,0,'0','[]',1);
CREATE TABLE batch_tasks (
	batch VARCHAR(200) NOT NULL, 
	task VARCHAR(200) NOT NULL, 
	repeats INTEGER NOT NULL, 
	kept INTEGER NOT NULL, 
	score TEXT NOT NULL, 
	lanes TEXT NOT NULL, 
	wanted TEXT NOT NULL, 
	PRIMARY KEY (batch, task)
)
 WITHOUT ROWID

;
INSERT INTO "batch_tasks" VALUES('old','dead',1,0,'0','{"openai/gpt-5":1}','{}');
INSERT INTO "batch_tasks" VALUES('old','passed-dead',1,0,'0','{"openai/gpt-5":1}','{}');
INSERT INTO "batch_tasks" VALUES('old','running',1,0,'0','{}','{}');
INSERT INTO "batch_tasks" VALUES('old','silent',1,0,'0','{"-/gpt-5":1}','{}');
INSERT INTO "batch_tasks" VALUES('old','solved',1,1,'1208925819614629174706176','{}','{}');
INSERT INTO "batch_tasks" VALUES('old','zero',1,1,'0','{}','{}');
CREATE TABLE batches (
	batch VARCHAR(200) NOT NULL, 
	first_at FLOAT NOT NULL, 
	last_at FLOAT NOT NULL, 
	version INTEGER DEFAULT '0' NOT NULL, 
	counts TEXT, 
	PRIMARY KEY (batch)
)
 WITHOUT ROWID

;
INSERT INTO "batches" VALUES('old',1795881887.39557,1.79588188941269373891e+09,12,'{"diagnostic:api_error_info":2,"diagnostic:suspected_api_error_info":1,"excluded":3,"fingerprint:auth:401":2,"fingerprint:suspected:zero_signal":1,"first":2,"health:api_error":2,"health:healthy":3,"health:suspected_api_error":1,"judged":6,"known:cost_known_calls":6,"known:cost_usd":3,"known:input_tokens":5,"known:lost_s":6,"known:output_tokens":5,"known:summed_calls":6,"known:tokens_known_calls":6,"known:total_tokens":5,"known:zeros":6,"lines":4,"pending":1,"reported_zeros":2,"rollouts":6,"score:first":1208925819614629174706176,"score:scored":1208925819614629174706176,"scoreable":3,"scored":2,"slots":6,"standing::0":1,"standing:fix_first:0":3,"subcategory:auth":2,"sum:cost_known_calls":5,"sum:cost_usd":513793473336217436160,"sum:input_tokens":60,"sum:lost_s":26417447010218875551744,"sum:output_tokens":35,"sum:summed_calls":5,"sum:tokens_known_calls":5,"sum:total_tokens":95,"unmeasured_zero:auth":1,"zeros:excluded_other":2,"zeros:excluded_zero":1,"zeros:kept_other":1,"zeros:kept_zero":1}');
CREATE TABLE breakers (
	batch VARCHAR(200) NOT NULL, 
	lane VARCHAR(300) NOT NULL, 
	state TEXT NOT NULL, 
	PRIMARY KEY (batch, lane)
)
 WITHOUT ROWID

;
INSERT INTO "breakers" VALUES('old','-/gpt-5/-','{"answered_at":null,"batch":"old","canary":null,"fingerprint":"suspected:zero_signal","lane":"-/gpt-5/-","opened_at":null,"phase":"closed","retry_at":null,"streak":1,"threshold":5,"tripped_by":["silent"]}');
INSERT INTO "breakers" VALUES('old','openai/gpt-5/key-6fc3954b','{"answered_at":null,"batch":"old","canary":null,"fingerprint":"auth:401","lane":"openai/gpt-5/key-6fc3954b","opened_at":null,"phase":"closed","retry_at":null,"streak":2,"threshold":5,"tripped_by":["dead","passed-dead"]}');
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
INSERT INTO "call_usage" VALUES('old',29931364,'gpt-5','openai','agent','','0',0,5,5,5,5,60,35,95,0,0,5,0.0,2.10908651351928710937e-02);
INSERT INTO "call_usage" VALUES('old',29931364,'gpt-5','openai','agent','auth','unused',0,4,0,0,0,0,0,0,0,0,4,0.0,7.733821868896484375e-03);
CREATE TABLE closings (
	rollout_id VARCHAR(200) NOT NULL, 
	number INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	PRIMARY KEY (rollout_id)
)
 WITHOUT ROWID

;
INSERT INTO "closings" VALUES('dead',3,1.79588188934405612942e+09);
INSERT INTO "closings" VALUES('passed-dead',4,1.79588188937478804591e+09);
INSERT INTO "closings" VALUES('silent',5,1.79588188939465522768e+09);
INSERT INTO "closings" VALUES('solved',1,1.79588188750220584871e+09);
INSERT INTO "closings" VALUES('zero',2,1.79588188929113292693e+09);
CREATE TABLE events (
	id INTEGER NOT NULL, 
	kind VARCHAR(24) NOT NULL, 
	rollout_id VARCHAR(200), 
	batch VARCHAR(200), 
	at FLOAT NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "events" VALUES(1,'verdict_given','solved','old',1.79588188757585573191e+09,'{"fingerprint":null,"health":"healthy","scoreable":"yes","subcategory":null,"validity":null,"validity_checks":[]}');
INSERT INTO "events" VALUES(2,'verdict_given','zero','old',1.7958818893050267696e+09,'{"fingerprint":null,"health":"healthy","scoreable":"yes","subcategory":null,"validity":null,"validity_checks":[]}');
INSERT INTO "events" VALUES(3,'exchange_failed','dead',NULL,1.79588188932700109487e+09,'{"exchange":"66158561257cdf5a48bfb189","status":401,"subcategory":"auth","transient":false}');
INSERT INTO "events" VALUES(4,'exchange_failed','dead',NULL,1.79588188933982157704e+09,'{"exchange":"66158561294c62e89b7de1b7","status":401,"subcategory":"auth","transient":false}');
INSERT INTO "events" VALUES(5,'verdict_given','dead','old',1.79588188935435557366e+09,'{"fingerprint":"auth:401","health":"api_error","scoreable":"no","subcategory":"auth","validity":null,"validity_checks":[]}');
INSERT INTO "events" VALUES(6,'exchange_failed','passed-dead',NULL,1.79588188936812758441e+09,'{"exchange":"66158561302f0b2b8b32381c","status":401,"subcategory":"auth","transient":false}');
INSERT INTO "events" VALUES(7,'exchange_failed','passed-dead',NULL,1.79588188937177777289e+09,'{"exchange":"66158561312249f4b805de40","status":401,"subcategory":"auth","transient":false}');
INSERT INTO "events" VALUES(8,'verdict_given','passed-dead','old',1.79588188938286256787e+09,'{"fingerprint":"auth:401","health":"api_error","scoreable":"no","subcategory":"auth","validity":null,"validity_checks":[]}');
INSERT INTO "events" VALUES(9,'verdict_given','silent','old',1.79588188940408635145e+09,'{"fingerprint":"suspected:zero_signal","health":"suspected_api_error","scoreable":"no","subcategory":null,"validity":null,"validity_checks":[]}');
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
	PRIMARY KEY (rollout_id, id)
)
 WITHOUT ROWID

;
INSERT INTO "exchanges" VALUES('dead','66158561257cdf5a48bfb189',1.79588188932296967501e+09,'inference','POST','agent','openai','openai.chat','gpt-5',NULL,401,'complete',0,3.96683799999664188362e-03,NULL,4.03139400032159755937e-03,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,0,0,0,'auth',NULL,0,'said.auth:key+invalid','invalid_api_key',NULL,NULL,68,128,'870ba7286f84b54e',NULL,'path','key-6fc3954b',0,NULL,0,NULL,NULL,NULL,'agent',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('dead','66158561294c62e89b7de1b7',1.79588188933857917785e+09,'inference','POST','agent','openai','openai.chat','gpt-5',NULL,401,'complete',0,1.19639900003676302731e-03,NULL,1.24237699992590933106e-03,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,0,0,0,'auth',NULL,0,'said.auth:key+invalid','invalid_api_key',NULL,NULL,68,128,'870ba7286f84b54e',NULL,'path','key-6fc3954b',0,NULL,0,NULL,NULL,NULL,'agent',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('passed-dead','66158561302f0b2b8b32381c',1.79588188936677765851e+09,'inference','POST','agent','openai','openai.chat','gpt-5',NULL,401,'complete',0,1.29278200029148138128e-03,NULL,1.34997700024541700258e-03,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,0,0,0,'auth',NULL,0,'said.auth:key+invalid','invalid_api_key',NULL,NULL,68,128,'870ba7286f84b54e',NULL,'path','key-6fc3954b',0,NULL,0,NULL,NULL,NULL,'agent',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('passed-dead','66158561312249f4b805de40',1.79588188937066769602e+09,'inference','POST','agent','openai','openai.chat','gpt-5',NULL,401,'complete',0,1.03154399994309642352e-03,NULL,1.11003099982553976587e-03,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,0,0,0,'auth',NULL,0,'said.auth:key+invalid','invalid_api_key',NULL,NULL,68,128,'870ba7286f84b54e',NULL,'path','key-6fc3954b',0,NULL,0,NULL,NULL,NULL,'agent',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "exchanges" VALUES('running','661585613c967214e05f7ad9',1.79588188941758513444e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5',200,'complete',0,4.54996500002380344085e-03,NULL,4.59301899991260142996e-03,12,7,NULL,NULL,NULL,19,12,7,'provider',NULL,'stop',0,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,68,283,NULL,NULL,'path','key-19964ab6',0,NULL,1,'ab7cf77086d8f05c',NULL,NULL,'agent',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'read',0,'43a6d99c8d29271c066c2fec02b644d0',NULL,NULL);
INSERT INTO "exchanges" VALUES('solved','6615855f5bea73864765c6d1',1.79588188744875478742e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5',200,'complete',0,1.14195290002498950343e-02,NULL,1.14907850002055056393e-02,12,7,NULL,NULL,NULL,19,12,7,'provider',NULL,'stop',0,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,68,283,NULL,NULL,'path','key-19964ab6',0,NULL,1,'ab7cf77086d8f05c',NULL,NULL,'agent',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'read',0,'e0dabd42c94144b56cee6ba6a130b5df',NULL,NULL);
INSERT INTO "exchanges" VALUES('solved','6615855f66422c553fd2087b',1.79588188749111986155e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5',200,'complete',0,1.15922400027557159774e-03,NULL,1.20057499998438288457e-03,12,7,NULL,NULL,NULL,19,12,7,'provider',NULL,'stop',0,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,68,283,NULL,NULL,'path','key-19964ab6',0,NULL,1,'ab7cf77086d8f05c',NULL,NULL,'agent',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'read',0,'e0dabd42c94144b56cee6ba6a130b5df',NULL,NULL);
INSERT INTO "exchanges" VALUES('zero','661585611b19e336176d920d',1.79588188928042483336e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5',200,'complete',0,1.54793199999403441324e-03,NULL,2.54868999991231248714e-03,12,7,NULL,NULL,NULL,19,12,7,'provider',NULL,'stop',0,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,68,283,NULL,NULL,'path','key-19964ab6',0,NULL,1,'ab7cf77086d8f05c',NULL,NULL,'agent',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'read',0,'bf0f6cabb6d172c8e363c2b69c9b5c82',NULL,NULL);
INSERT INTO "exchanges" VALUES('zero','661585611c012d2517591719',1.79588188928412771224e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5',200,'complete',0,1.21586800014483742415e-03,NULL,1.25785000000178115442e-03,12,7,NULL,NULL,NULL,19,12,7,'provider',NULL,'stop',0,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,68,283,NULL,NULL,'path','key-19964ab6',0,NULL,1,'ab7cf77086d8f05c',NULL,NULL,'agent',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'read',0,'bf0f6cabb6d172c8e363c2b69c9b5c82',NULL,NULL);
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
CREATE TABLE reference_failures (
	rollout_id VARCHAR(200) NOT NULL, 
	exchange_id VARCHAR(32) NOT NULL, 
	series_id VARCHAR(32) NOT NULL, 
	PRIMARY KEY (rollout_id, exchange_id)
)
 WITHOUT ROWID

;
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
	PRIMARY KEY (id)
)
 WITHOUT ROWID

;
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
	PRIMARY KEY (id)
);
INSERT INTO "rollouts" VALUES('solved','old','solved',0,'gpt-5',NULL,'proxy',NULL,1,1795881887.39557,0,NULL,'{"error":null,"eval":null,"export_error":null,"prompts_executed":1,"rewards":{"reward":1.0},"status":"success","termination_reason":null,"tool_calls":null,"total_tokens":null,"verifier_error":null}',1.79588188750220584871e+09,NULL,NULL,0,NULL,1.79588188752288126942e+09,2,'trusted','invalid','score',NULL,NULL,'failure',NULL,'score',NULL);
INSERT INTO "rollouts" VALUES('zero','old','zero',0,'gpt-5',NULL,'proxy',NULL,1,1.7958818892758564949e+09,0,NULL,'{"error":null,"eval":null,"export_error":null,"prompts_executed":1,"rewards":{"reward":0.0},"status":"success","termination_reason":null,"tool_calls":null,"total_tokens":null,"verifier_error":null}',1.79588188929113292693e+09,NULL,NULL,0,NULL,1.79588188929428219792e+09,2,'trusted','invalid','score',NULL,NULL,'failure',NULL,'score',NULL);
INSERT INTO "rollouts" VALUES('dead','old','dead',0,'gpt-5',NULL,'proxy',NULL,1,1.79588188931455016135e+09,0,NULL,'{"error":null,"eval":null,"export_error":null,"prompts_executed":1,"rewards":{"reward":0.0},"status":"success","termination_reason":null,"tool_calls":null,"total_tokens":null,"verifier_error":null}',1.79588188934405612942e+09,NULL,NULL,0,NULL,1.79588188934676384923e+09,2,'trusted','invalid','score',NULL,NULL,'failure',NULL,'score',NULL);
INSERT INTO "rollouts" VALUES('passed-dead','old','passed-dead',0,'gpt-5',NULL,'proxy',NULL,1,1.79588188936293411258e+09,0,NULL,'{"error":null,"eval":null,"export_error":null,"prompts_executed":1,"rewards":{"reward":1.0},"status":"success","termination_reason":null,"tool_calls":null,"total_tokens":null,"verifier_error":null}',1.79588188937478804591e+09,NULL,NULL,0,NULL,1.7958818893774402142e+09,2,'trusted','invalid','score',NULL,NULL,'failure',NULL,'score',NULL);
INSERT INTO "rollouts" VALUES('silent','old','silent',0,'gpt-5',NULL,'proxy',NULL,1,1.79588188939095354081e+09,0,NULL,'{"error":null,"eval":null,"export_error":null,"prompts_executed":1,"rewards":{"reward":1.0},"status":"success","termination_reason":null,"tool_calls":null,"total_tokens":null,"verifier_error":null}',1.79588188939465522768e+09,NULL,NULL,0,NULL,1.7958818893966624737e+09,0,'trusted','invalid','score',NULL,NULL,'failure',NULL,'score',NULL);
INSERT INTO "rollouts" VALUES('running','old','running',NULL,'gpt-5',NULL,'proxy',NULL,1,1.79588188941269373891e+09,0,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,'trusted','invalid','score',NULL,NULL,'failure',NULL,'score',NULL);
CREATE TABLE server (
	name VARCHAR(40) NOT NULL, 
	value VARCHAR(200) NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "server" VALUES('created','1795881884.590279');
INSERT INTO "server" VALUES('salt','73616C7400000000000000000000000000000000000000000000000000000000');
INSERT INTO "server" VALUES('keyring','6B657972696E6700000000000000000000000000000000000000000000000000');
INSERT INTO "server" VALUES('closing','5');
CREATE TABLE unjudged (
	rollout_id VARCHAR(200) NOT NULL, 
	batch VARCHAR(200), 
	change INTEGER NOT NULL, 
	PRIMARY KEY (rollout_id)
)
 WITHOUT ROWID

;
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
	neighbours TEXT, 
	validity TEXT, 
	unattributed_calls INTEGER, 
	summed_calls INTEGER, 
	tokens_known_calls INTEGER, 
	cost_known_calls INTEGER, 
	servings TEXT, 
	began_at FLOAT, 
	reference_series TEXT, 
	drifts TEXT, 
	lost_s FLOAT, 
	held_s FLOAT, 
	PRIMARY KEY (rollout_id)
);
INSERT INTO "verdicts" VALUES('solved','old','healthy',NULL,NULL,NULL,'openai/gpt-5/key-19964ab6',0,'yes',1.0,24,14,38,0.00017,'genai-prices 0.2.3',1.79588188757585573191e+09,2,'{"rollout_id":"solved","batch":"old","health":"healthy","error_category":null,"subcategory":null,"transient":null,"fingerprint":null,"cause":null,"lane":"openai/gpt-5/key-19964ab6","layer":null,"rule":"healthy","policy":"evidence","error":null,"total_requests":2,"failed_requests":0,"recovered_requests":0,"status_counts":{},"dominant_status":null,"input_tokens":24,"output_tokens":14,"total_tokens":38,"tool_calls":0,"cost_usd":0.00017,"lost_s":0.0,"scoreable":"yes","doomed":false,"provisional":false,"retry":{"eligible":false,"after_s":null,"reason":"nothing failed"},"warnings":[],"evidence":["6615855f66422c553fd2087b"],"classifier":"1","late_calls":0,"judged_at":1795881887.5758557,"attributed_to":null,"corroborated":null,"validity":[],"validity_coverage":{"prompt_truncated":{"looked":0,"of":2},"output_truncated":{"looked":2,"of":2},"reasoning_ate_budget":{"looked":2,"of":2},"engine_aborted":{"looked":2,"of":2},"model_substituted":{"looked":2,"of":2},"serving_changed":{"looked":0,"of":2},"error_as_answer":{"looked":2,"of":2},"answers_identical":{"looked":2,"of":2},"duplicate_identity":{"looked":0,"of":2}},"roles":{},"provider_s":0.012691,"agent_s":0.093945,"excluded_by":[],"proof":{"source":"wire","first":"6615855f5bea73864765c6d1","last":"6615855f66422c553fd2087b"},"references":[],"held_s":null}','{"rollout_id":"solved","batch":"old","task":"solved","repeat":null,"attempt":0,"model":"gpt-5","status":"success","termination_reason":null,"eval":null,"rewards":{"reward":1.0},"health":"healthy","error_category":null,"subcategory":null,"transient":null,"fingerprint":null,"api_error_info":null,"suspected_api_error_info":null,"undecided_info":null,"not_judged_info":null,"unscoreable_info":null,"validity_info":null,"own_failure_info":null,"error":null,"verifier_error":null,"export_error":null,"scoreable":"yes","provisional":false,"prompts_executed":1,"total_requests":2,"failed_requests":0,"input_tokens":24,"output_tokens":14,"total_tokens":38,"tool_calls":0,"cost_usd":0.00017,"warnings":[],"late_calls":0,"judged_at":1795881887.5758557,"attributed_to":null,"corroborated":null,"validity":[],"validity_coverage":{"prompt_truncated":{"looked":0,"of":2},"output_truncated":{"looked":2,"of":2},"reasoning_ate_budget":{"looked":2,"of":2},"engine_aborted":{"looked":2,"of":2},"model_substituted":{"looked":2,"of":2},"serving_changed":{"looked":0,"of":2},"error_as_answer":{"looked":2,"of":2},"answers_identical":{"looked":2,"of":2},"duplicate_identity":{"looked":0,"of":2}},"roles":{},"provider_s":0.012691,"lost_s":0.0,"agent_s":0.093945,"proof":{"source":"wire","first":"6615855f5bea73864765c6d1","last":"6615855f66422c553fd2087b"}}',NULL,NULL,NULL,NULL,2,2,2,'[["openai","gpt-5","gpt-5",null,null]]',1795881887.39557,NULL,NULL,0.0,NULL);
INSERT INTO "verdicts" VALUES('zero','old','healthy',NULL,NULL,NULL,'openai/gpt-5/key-19964ab6',0,'yes',0.0,24,14,38,0.00017,'genai-prices 0.2.3',1.7958818893050267696e+09,2,'{"rollout_id":"zero","batch":"old","health":"healthy","error_category":null,"subcategory":null,"transient":null,"fingerprint":null,"cause":null,"lane":"openai/gpt-5/key-19964ab6","layer":null,"rule":"healthy","policy":"evidence","error":null,"total_requests":2,"failed_requests":0,"recovered_requests":0,"status_counts":{},"dominant_status":null,"input_tokens":24,"output_tokens":14,"total_tokens":38,"tool_calls":0,"cost_usd":0.00017,"lost_s":0.0,"scoreable":"yes","doomed":false,"provisional":false,"retry":{"eligible":false,"after_s":null,"reason":"nothing failed"},"warnings":[],"evidence":["661585611c012d2517591719"],"classifier":"1","late_calls":0,"judged_at":1795881889.3050268,"attributed_to":null,"corroborated":null,"validity":[],"validity_coverage":{"prompt_truncated":{"looked":0,"of":2},"output_truncated":{"looked":2,"of":2},"reasoning_ate_budget":{"looked":2,"of":2},"engine_aborted":{"looked":2,"of":2},"model_substituted":{"looked":2,"of":2},"serving_changed":{"looked":0,"of":2},"error_as_answer":{"looked":2,"of":2},"answers_identical":{"looked":2,"of":2},"duplicate_identity":{"looked":0,"of":2}},"roles":{},"provider_s":0.003807,"agent_s":0.011469,"excluded_by":[],"proof":{"source":"wire","first":"661585611b19e336176d920d","last":"661585611c012d2517591719"},"references":[],"held_s":null}','{"rollout_id":"zero","batch":"old","task":"zero","repeat":null,"attempt":0,"model":"gpt-5","status":"success","termination_reason":null,"eval":null,"rewards":{"reward":0.0},"health":"healthy","error_category":null,"subcategory":null,"transient":null,"fingerprint":null,"api_error_info":null,"suspected_api_error_info":null,"undecided_info":null,"not_judged_info":null,"unscoreable_info":null,"validity_info":null,"own_failure_info":null,"error":null,"verifier_error":null,"export_error":null,"scoreable":"yes","provisional":false,"prompts_executed":1,"total_requests":2,"failed_requests":0,"input_tokens":24,"output_tokens":14,"total_tokens":38,"tool_calls":0,"cost_usd":0.00017,"warnings":[],"late_calls":0,"judged_at":1795881889.3050268,"attributed_to":null,"corroborated":null,"validity":[],"validity_coverage":{"prompt_truncated":{"looked":0,"of":2},"output_truncated":{"looked":2,"of":2},"reasoning_ate_budget":{"looked":2,"of":2},"engine_aborted":{"looked":2,"of":2},"model_substituted":{"looked":2,"of":2},"serving_changed":{"looked":0,"of":2},"error_as_answer":{"looked":2,"of":2},"answers_identical":{"looked":2,"of":2},"duplicate_identity":{"looked":0,"of":2}},"roles":{},"provider_s":0.003807,"lost_s":0.0,"agent_s":0.011469,"proof":{"source":"wire","first":"661585611b19e336176d920d","last":"661585611c012d2517591719"}}',NULL,NULL,NULL,NULL,2,2,2,'[["openai","gpt-5","gpt-5",null,null]]',1.7958818892758564949e+09,NULL,NULL,0.0,NULL);
INSERT INTO "verdicts" VALUES('dead','old','api_error','auth','auth:401','v1:auth:openai:401:invalid_api_key','openai/gpt-5/key-6fc3954b',0,'no',NULL,0,0,0,NULL,NULL,1.79588188935435557366e+09,2,'{"rollout_id":"dead","batch":"old","health":"api_error","error_category":"api_error","subcategory":"auth","transient":false,"fingerprint":"auth:401","cause":"v1:auth:openai:401:invalid_api_key","lane":"openai/gpt-5/key-6fc3954b","layer":"proxy_proven","rule":"all_failed","policy":"evidence","error":"api_error [auth, permanent]: HTTP 401 on 2 of 2 calls","total_requests":2,"failed_requests":2,"recovered_requests":0,"status_counts":{"401":2},"dominant_status":401,"input_tokens":0,"output_tokens":0,"total_tokens":0,"tool_calls":0,"cost_usd":null,"lost_s":0.016852,"scoreable":"no","doomed":true,"provisional":false,"retry":{"eligible":false,"after_s":null,"reason":"permanent until someone fixes the key"},"warnings":[],"evidence":["66158561257cdf5a48bfb189","66158561294c62e89b7de1b7"],"classifier":"1","late_calls":0,"judged_at":1795881889.3543556,"attributed_to":"operator","corroborated":false,"validity":[],"validity_coverage":{},"roles":{},"provider_s":0.0,"agent_s":0.012654,"excluded_by":[],"proof":null,"references":[],"held_s":null}','{"rollout_id":"dead","batch":"old","task":"dead","repeat":null,"attempt":0,"model":"gpt-5","status":"success","termination_reason":null,"eval":null,"rewards":null,"health":"api_error","error_category":"api_error","subcategory":"auth","transient":false,"fingerprint":"auth:401","api_error_info":{"rule":"all_failed","subcategory":"auth","transient":false,"fingerprint":"auth:401","cause":"v1:auth:openai:401:invalid_api_key","lane":"openai/gpt-5/key-6fc3954b","dominant_status":401,"status_counts":{"401":2},"total_requests":2,"failed_requests":2,"recovered_requests":0,"lost_s":0.016852,"evidence":["66158561257cdf5a48bfb189","66158561294c62e89b7de1b7"],"detail":"HTTP 401 on 2 of 2 calls"},"suspected_api_error_info":null,"undecided_info":null,"not_judged_info":null,"unscoreable_info":null,"validity_info":null,"own_failure_info":null,"error":"api_error [auth, permanent]: HTTP 401 on 2 of 2 calls","verifier_error":null,"export_error":null,"scoreable":"no","provisional":false,"prompts_executed":1,"total_requests":2,"failed_requests":2,"input_tokens":0,"output_tokens":0,"total_tokens":0,"tool_calls":0,"cost_usd":null,"warnings":[],"late_calls":0,"judged_at":1795881889.3543556,"attributed_to":"operator","corroborated":false,"validity":[],"validity_coverage":{},"roles":{},"provider_s":0.0,"lost_s":0.016852,"agent_s":0.012654,"proof":null}','operator','{"66158561257cdf5a48bfb189":{"alike":0,"answered":2,"answered_between":false,"at_once":0,"open":0,"respelled":false,"starts":4},"66158561294c62e89b7de1b7":{"alike":0,"answered":2,"answered_between":false,"at_once":0,"open":0,"respelled":false,"starts":4}}',NULL,NULL,0,0,0,NULL,1.79588188931455016135e+09,NULL,NULL,0.016852,NULL);
INSERT INTO "verdicts" VALUES('passed-dead','old','api_error','auth','auth:401','v1:auth:openai:401:invalid_api_key','openai/gpt-5/key-6fc3954b',0,'no',NULL,0,0,0,NULL,NULL,1.79588188938286256787e+09,2,'{"rollout_id":"passed-dead","batch":"old","health":"api_error","error_category":"api_error","subcategory":"auth","transient":false,"fingerprint":"auth:401","cause":"v1:auth:openai:401:invalid_api_key","lane":"openai/gpt-5/key-6fc3954b","layer":"proxy_proven","rule":"all_failed","policy":"evidence","error":"api_error [auth, permanent]: HTTP 401 on 2 of 2 calls","total_requests":2,"failed_requests":2,"recovered_requests":0,"status_counts":{"401":2},"dominant_status":401,"input_tokens":0,"output_tokens":0,"total_tokens":0,"tool_calls":0,"cost_usd":null,"lost_s":0.005,"scoreable":"no","doomed":true,"provisional":false,"retry":{"eligible":false,"after_s":null,"reason":"permanent until someone fixes the key"},"warnings":[],"evidence":["66158561302f0b2b8b32381c","66158561312249f4b805de40"],"classifier":"1","late_calls":0,"judged_at":1795881889.3828626,"attributed_to":"operator","corroborated":false,"validity":[],"validity_coverage":{},"roles":{},"provider_s":0.0,"agent_s":0.006854,"excluded_by":[],"proof":null,"references":[],"held_s":null}','{"rollout_id":"passed-dead","batch":"old","task":"passed-dead","repeat":null,"attempt":0,"model":"gpt-5","status":"success","termination_reason":null,"eval":null,"rewards":null,"health":"api_error","error_category":"api_error","subcategory":"auth","transient":false,"fingerprint":"auth:401","api_error_info":{"rule":"all_failed","subcategory":"auth","transient":false,"fingerprint":"auth:401","cause":"v1:auth:openai:401:invalid_api_key","lane":"openai/gpt-5/key-6fc3954b","dominant_status":401,"status_counts":{"401":2},"total_requests":2,"failed_requests":2,"recovered_requests":0,"lost_s":0.005,"evidence":["66158561302f0b2b8b32381c","66158561312249f4b805de40"],"detail":"HTTP 401 on 2 of 2 calls"},"suspected_api_error_info":null,"undecided_info":null,"not_judged_info":null,"unscoreable_info":null,"validity_info":null,"own_failure_info":null,"error":"api_error [auth, permanent]: HTTP 401 on 2 of 2 calls","verifier_error":null,"export_error":null,"scoreable":"no","provisional":false,"prompts_executed":1,"total_requests":2,"failed_requests":2,"input_tokens":0,"output_tokens":0,"total_tokens":0,"tool_calls":0,"cost_usd":null,"warnings":[],"late_calls":0,"judged_at":1795881889.3828626,"attributed_to":"operator","corroborated":false,"validity":[],"validity_coverage":{},"roles":{},"provider_s":0.0,"lost_s":0.005,"agent_s":0.006854,"proof":null}','operator','{"66158561302f0b2b8b32381c":{"alike":1,"answered":2,"answered_between":false,"at_once":0,"open":0,"respelled":false,"starts":6},"66158561312249f4b805de40":{"alike":1,"answered":2,"answered_between":false,"at_once":0,"open":0,"respelled":false,"starts":6}}',NULL,NULL,0,0,0,NULL,1.79588188936293411258e+09,NULL,NULL,0.005,NULL);
INSERT INTO "verdicts" VALUES('silent','old','suspected_api_error',NULL,'suspected:zero_signal',NULL,'-/gpt-5/-',0,'no',NULL,NULL,NULL,NULL,NULL,NULL,1.79588188940408635145e+09,0,'{"rollout_id":"silent","batch":"old","health":"suspected_api_error","error_category":"suspected_api_error","subcategory":null,"transient":null,"fingerprint":"suspected:zero_signal","cause":null,"lane":"-/gpt-5/-","layer":"zero_signal","rule":"zero_signal","policy":"evidence","error":"suspected_api_error: a prompt was executed, yet no call, token or tool call was seen","total_requests":0,"failed_requests":0,"recovered_requests":0,"status_counts":{},"dominant_status":null,"input_tokens":null,"output_tokens":null,"total_tokens":null,"tool_calls":null,"cost_usd":null,"lost_s":0.0,"scoreable":"no","doomed":false,"provisional":false,"retry":{"eligible":false,"after_s":null,"reason":"suspected, not proven: someone should look first"},"warnings":[],"evidence":[],"classifier":"1","late_calls":0,"judged_at":1795881889.4040864,"attributed_to":null,"corroborated":null,"validity":[],"validity_coverage":{},"roles":{},"provider_s":0.0,"agent_s":0.003702,"excluded_by":[],"proof":null,"references":[],"held_s":null}','{"rollout_id":"silent","batch":"old","task":"silent","repeat":null,"attempt":0,"model":"gpt-5","status":"success","termination_reason":null,"eval":null,"rewards":null,"health":"suspected_api_error","error_category":"suspected_api_error","subcategory":null,"transient":null,"fingerprint":"suspected:zero_signal","api_error_info":null,"suspected_api_error_info":{"rule":"zero_signal","fingerprint":"suspected:zero_signal","lane":"-/gpt-5/-","total_requests":0,"failed_requests":0,"output_tokens":null,"tool_calls":null,"evidence":[],"detail":"a prompt was executed, yet no call, token or tool call was seen"},"undecided_info":null,"not_judged_info":null,"unscoreable_info":null,"validity_info":null,"own_failure_info":null,"error":"suspected_api_error: a prompt was executed, yet no call, token or tool call was seen","verifier_error":null,"export_error":null,"scoreable":"no","provisional":false,"prompts_executed":1,"total_requests":0,"failed_requests":0,"input_tokens":null,"output_tokens":null,"total_tokens":null,"tool_calls":null,"cost_usd":null,"warnings":[],"late_calls":0,"judged_at":1795881889.4040864,"attributed_to":null,"corroborated":null,"validity":[],"validity_coverage":{},"roles":{},"provider_s":0.0,"lost_s":0.0,"agent_s":0.003702,"proof":null}',NULL,NULL,NULL,NULL,0,0,0,NULL,1.79588188939095354081e+09,NULL,NULL,0.0,NULL);
INSERT INTO "verdicts" VALUES('running','old','healthy',NULL,NULL,NULL,'openai/gpt-5/key-19964ab6',1,'yes',NULL,12,7,19,8.5e-05,'genai-prices 0.2.3',1.79588188942848420138e+09,1,'{"rollout_id":"running","batch":"old","health":"healthy","error_category":null,"subcategory":null,"transient":null,"fingerprint":null,"cause":null,"lane":"openai/gpt-5/key-19964ab6","layer":null,"rule":"healthy","policy":"evidence","error":null,"total_requests":1,"failed_requests":0,"recovered_requests":0,"status_counts":{},"dominant_status":null,"input_tokens":12,"output_tokens":7,"total_tokens":19,"tool_calls":0,"cost_usd":8.5e-05,"lost_s":0.0,"scoreable":"yes","doomed":false,"provisional":true,"retry":{"eligible":false,"after_s":null,"reason":"nothing failed"},"warnings":[],"evidence":["661585613c967214e05f7ad9"],"classifier":"1","late_calls":0,"judged_at":null,"attributed_to":null,"corroborated":null,"validity":[],"validity_coverage":{"prompt_truncated":{"looked":0,"of":1},"output_truncated":{"looked":1,"of":1},"reasoning_ate_budget":{"looked":1,"of":1},"engine_aborted":{"looked":1,"of":1},"model_substituted":{"looked":1,"of":1},"serving_changed":{"looked":0,"of":1},"error_as_answer":{"looked":1,"of":1},"answers_identical":{"looked":1,"of":1},"duplicate_identity":{"looked":0,"of":1}},"roles":{},"provider_s":0.004593,"agent_s":null,"excluded_by":[],"proof":{"source":"wire","first":"661585613c967214e05f7ad9","last":"661585613c967214e05f7ad9"},"references":[],"held_s":null}',NULL,NULL,NULL,NULL,NULL,1,1,1,'[["openai","gpt-5","gpt-5",null,null]]',1.79588188941269373891e+09,NULL,NULL,0.0,NULL);
CREATE TABLE workers (
	id VARCHAR(32) NOT NULL, 
	host VARCHAR(200) NOT NULL, 
	pid INTEGER NOT NULL, 
	seen_at FLOAT NOT NULL, 
	closed_up_to INTEGER, 
	still_closing TEXT, 
	PRIMARY KEY (id)
);
CREATE INDEX rollouts_drilled ON rollouts (id) WHERE fault IS NOT NULL;
CREATE INDEX rollouts_created ON rollouts (created_at, id);
CREATE INDEX rollouts_task ON rollouts (task, created_at, id);
CREATE INDEX rollouts_batch ON rollouts (batch, created_at, id);
CREATE INDEX rollouts_repeat ON rollouts (batch, task, repeat);
CREATE INDEX rollouts_group ON rollouts (batch, task, created_at, id);
CREATE INDEX exchanges_started ON exchanges (started_at);
CREATE INDEX exchanges_failed ON exchanges (started_at) WHERE (subcategory IS NOT NULL OR (answer_state = 'unread' AND kind IN ('inference', 'continuation')));
CREATE INDEX open_calls_rollout ON open_calls (rollout_id);
CREATE INDEX open_calls_worker ON open_calls (worker);
CREATE INDEX closings_number ON closings (number);
CREATE INDEX verdicts_batch_subcategory ON verdicts (batch, subcategory, began_at, rollout_id) WHERE subcategory IS NOT NULL;
CREATE INDEX verdicts_reward ON verdicts (reward, began_at, rollout_id) WHERE reward IS NOT NULL;
CREATE INDEX verdicts_total_tokens ON verdicts (total_tokens, began_at, rollout_id) WHERE total_tokens IS NOT NULL;
CREATE INDEX verdicts_cost_usd ON verdicts (cost_usd, began_at, rollout_id) WHERE cost_usd IS NOT NULL;
CREATE INDEX verdicts_unscored ON verdicts (batch, began_at, rollout_id) WHERE (provisional OR scoreable <> 'yes' OR reward IS NULL);
CREATE INDEX verdicts_batch_health ON verdicts (batch, health, began_at, rollout_id);
CREATE INDEX verdicts_subcategory ON verdicts (subcategory, began_at, rollout_id) WHERE subcategory IS NOT NULL;
CREATE INDEX verdicts_batch_reward ON verdicts (batch, reward, began_at, rollout_id) WHERE reward IS NOT NULL;
CREATE INDEX verdicts_batch_total_tokens ON verdicts (batch, total_tokens, began_at, rollout_id) WHERE total_tokens IS NOT NULL;
CREATE INDEX verdicts_health ON verdicts (health, began_at, rollout_id);
CREATE INDEX verdicts_batch_cost_usd ON verdicts (batch, cost_usd, began_at, rollout_id) WHERE cost_usd IS NOT NULL;
CREATE INDEX verdicts_fingerprint ON verdicts (fingerprint, began_at, rollout_id);
CREATE INDEX verdicts_batch_fingerprint ON verdicts (batch, fingerprint, began_at, rollout_id) WHERE fingerprint IS NOT NULL;
CREATE INDEX reference_series_started ON reference_series (started_at);
CREATE INDEX reference_series_lane ON reference_series (upstream, model, started_at);
CREATE INDEX reference_failures_series ON reference_failures (series_id);
CREATE INDEX budgets_batch ON budgets (batch);
CREATE INDEX reservations_batch ON reservations (batch);
CREATE INDEX reservations_worker ON reservations (worker);
CREATE INDEX reservations_rollout ON reservations (rollout_id);
CREATE INDEX events_at ON events (at);
CREATE INDEX unjudged_batch ON unjudged (batch);
CREATE INDEX batches_newest ON batches (last_at, batch);
CREATE TRIGGER exchange_added AFTER INSERT ON exchanges BEGIN INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) VALUES (coalesce((SELECT batch FROM rollouts WHERE id = NEW.rollout_id), ''), CAST(NEW.started_at / 60 AS INTEGER), coalesce(NEW.answered_model, NEW.model, ''), NEW.upstream, NEW.role, coalesce(NEW.subcategory, ''), CASE WHEN NEW.ending IS NULL OR NEW.pending IS TRUE OR NEW.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN NEW.subcategory IS NOT NULL AND (NEW.status IS NULL OR NEW.status >= 400) THEN 'unused' WHEN (CASE WHEN NEW.cost_usd BETWEEN 0 AND 1000000 THEN NEW.cost_usd END) IS NOT NULL THEN 'stated' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) IS NULL OR (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, 1, CASE WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN coalesce((CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) + (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END), (CASE WHEN NEW.total_tokens BETWEEN 0 AND 1000000000 THEN NEW.total_tokens END)) IS NULL THEN 0 ELSE 1 END, coalesce((CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END), 0), coalesce((CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END), 0), coalesce(coalesce((CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) + (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END), (CASE WHEN NEW.total_tokens BETWEEN 0 AND 1000000000 THEN NEW.total_tokens END)), 0), coalesce((CASE WHEN NEW.cached_input_tokens BETWEEN 0 AND 1000000000 THEN NEW.cached_input_tokens END), 0), coalesce((CASE WHEN NEW.cache_write_tokens BETWEEN 0 AND 1000000000 THEN NEW.cache_write_tokens END), 0), CASE WHEN (CASE WHEN NEW.duration_s BETWEEN 0 AND 1000000000 THEN NEW.duration_s END) IS NULL THEN 0 ELSE 1 END, coalesce(round((CASE WHEN NEW.cost_usd BETWEEN 0 AND 1000000 THEN NEW.cost_usd END) * 1073741824.0) / 1073741824.0, 0), coalesce(round((CASE WHEN NEW.duration_s BETWEEN 0 AND 1000000000 THEN NEW.duration_s END) * 16777216.0) / 16777216.0, 0)) ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO unjudged (rollout_id, batch, change) SELECT id, batch, random() FROM rollouts WHERE id = NEW.rollout_id AND NOT EXISTS (SELECT 1 FROM verdicts WHERE rollout_id = NEW.rollout_id AND NOT provisional) ON CONFLICT (rollout_id) DO UPDATE SET change = excluded.change, batch = excluded.batch; END;
CREATE TRIGGER exchange_changed AFTER UPDATE ON exchanges BEGIN INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) VALUES (coalesce((SELECT batch FROM rollouts WHERE id = OLD.rollout_id), ''), CAST(OLD.started_at / 60 AS INTEGER), coalesce(OLD.answered_model, OLD.model, ''), OLD.upstream, OLD.role, coalesce(OLD.subcategory, ''), CASE WHEN OLD.ending IS NULL OR OLD.pending IS TRUE OR OLD.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN OLD.subcategory IS NOT NULL AND (OLD.status IS NULL OR OLD.status >= 400) THEN 'unused' WHEN (CASE WHEN OLD.cost_usd BETWEEN 0 AND 1000000 THEN OLD.cost_usd END) IS NOT NULL THEN 'stated' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) IS NULL OR (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, -(1), -(CASE WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN coalesce((CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) + (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END), (CASE WHEN OLD.total_tokens BETWEEN 0 AND 1000000000 THEN OLD.total_tokens END)) IS NULL THEN 0 ELSE 1 END), -(coalesce((CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END), 0)), -(coalesce((CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END), 0)), -(coalesce(coalesce((CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) + (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END), (CASE WHEN OLD.total_tokens BETWEEN 0 AND 1000000000 THEN OLD.total_tokens END)), 0)), -(coalesce((CASE WHEN OLD.cached_input_tokens BETWEEN 0 AND 1000000000 THEN OLD.cached_input_tokens END), 0)), -(coalesce((CASE WHEN OLD.cache_write_tokens BETWEEN 0 AND 1000000000 THEN OLD.cache_write_tokens END), 0)), -(CASE WHEN (CASE WHEN OLD.duration_s BETWEEN 0 AND 1000000000 THEN OLD.duration_s END) IS NULL THEN 0 ELSE 1 END), -(coalesce(round((CASE WHEN OLD.cost_usd BETWEEN 0 AND 1000000 THEN OLD.cost_usd END) * 1073741824.0) / 1073741824.0, 0)), -(coalesce(round((CASE WHEN OLD.duration_s BETWEEN 0 AND 1000000000 THEN OLD.duration_s END) * 16777216.0) / 16777216.0, 0))) ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) VALUES (coalesce((SELECT batch FROM rollouts WHERE id = NEW.rollout_id), ''), CAST(NEW.started_at / 60 AS INTEGER), coalesce(NEW.answered_model, NEW.model, ''), NEW.upstream, NEW.role, coalesce(NEW.subcategory, ''), CASE WHEN NEW.ending IS NULL OR NEW.pending IS TRUE OR NEW.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN NEW.subcategory IS NOT NULL AND (NEW.status IS NULL OR NEW.status >= 400) THEN 'unused' WHEN (CASE WHEN NEW.cost_usd BETWEEN 0 AND 1000000 THEN NEW.cost_usd END) IS NOT NULL THEN 'stated' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) IS NULL OR (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, 1, CASE WHEN (CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN coalesce((CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) + (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END), (CASE WHEN NEW.total_tokens BETWEEN 0 AND 1000000000 THEN NEW.total_tokens END)) IS NULL THEN 0 ELSE 1 END, coalesce((CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END), 0), coalesce((CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END), 0), coalesce(coalesce((CASE WHEN NEW.input_total BETWEEN 0 AND 1000000000 THEN NEW.input_total END) + (CASE WHEN NEW.output_total BETWEEN 0 AND 1000000000 THEN NEW.output_total END), (CASE WHEN NEW.total_tokens BETWEEN 0 AND 1000000000 THEN NEW.total_tokens END)), 0), coalesce((CASE WHEN NEW.cached_input_tokens BETWEEN 0 AND 1000000000 THEN NEW.cached_input_tokens END), 0), coalesce((CASE WHEN NEW.cache_write_tokens BETWEEN 0 AND 1000000000 THEN NEW.cache_write_tokens END), 0), CASE WHEN (CASE WHEN NEW.duration_s BETWEEN 0 AND 1000000000 THEN NEW.duration_s END) IS NULL THEN 0 ELSE 1 END, coalesce(round((CASE WHEN NEW.cost_usd BETWEEN 0 AND 1000000 THEN NEW.cost_usd END) * 1073741824.0) / 1073741824.0, 0), coalesce(round((CASE WHEN NEW.duration_s BETWEEN 0 AND 1000000000 THEN NEW.duration_s END) * 16777216.0) / 16777216.0, 0)) ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO unjudged (rollout_id, batch, change) SELECT id, batch, random() FROM rollouts WHERE id = NEW.rollout_id AND NOT EXISTS (SELECT 1 FROM verdicts WHERE rollout_id = NEW.rollout_id AND NOT provisional) ON CONFLICT (rollout_id) DO UPDATE SET change = excluded.change, batch = excluded.batch; END;
CREATE TRIGGER exchange_removed AFTER DELETE ON exchanges BEGIN INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) VALUES (coalesce((SELECT batch FROM rollouts WHERE id = OLD.rollout_id), ''), CAST(OLD.started_at / 60 AS INTEGER), coalesce(OLD.answered_model, OLD.model, ''), OLD.upstream, OLD.role, coalesce(OLD.subcategory, ''), CASE WHEN OLD.ending IS NULL OR OLD.pending IS TRUE OR OLD.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN OLD.subcategory IS NOT NULL AND (OLD.status IS NULL OR OLD.status >= 400) THEN 'unused' WHEN (CASE WHEN OLD.cost_usd BETWEEN 0 AND 1000000 THEN OLD.cost_usd END) IS NOT NULL THEN 'stated' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) IS NULL OR (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, -(1), -(CASE WHEN (CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN coalesce((CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) + (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END), (CASE WHEN OLD.total_tokens BETWEEN 0 AND 1000000000 THEN OLD.total_tokens END)) IS NULL THEN 0 ELSE 1 END), -(coalesce((CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END), 0)), -(coalesce((CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END), 0)), -(coalesce(coalesce((CASE WHEN OLD.input_total BETWEEN 0 AND 1000000000 THEN OLD.input_total END) + (CASE WHEN OLD.output_total BETWEEN 0 AND 1000000000 THEN OLD.output_total END), (CASE WHEN OLD.total_tokens BETWEEN 0 AND 1000000000 THEN OLD.total_tokens END)), 0)), -(coalesce((CASE WHEN OLD.cached_input_tokens BETWEEN 0 AND 1000000000 THEN OLD.cached_input_tokens END), 0)), -(coalesce((CASE WHEN OLD.cache_write_tokens BETWEEN 0 AND 1000000000 THEN OLD.cache_write_tokens END), 0)), -(CASE WHEN (CASE WHEN OLD.duration_s BETWEEN 0 AND 1000000000 THEN OLD.duration_s END) IS NULL THEN 0 ELSE 1 END), -(coalesce(round((CASE WHEN OLD.cost_usd BETWEEN 0 AND 1000000 THEN OLD.cost_usd END) * 1073741824.0) / 1073741824.0, 0)), -(coalesce(round((CASE WHEN OLD.duration_s BETWEEN 0 AND 1000000000 THEN OLD.duration_s END) * 16777216.0) / 16777216.0, 0))) ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; END;
CREATE TRIGGER call_opened AFTER INSERT ON open_calls BEGIN INSERT INTO unjudged (rollout_id, batch, change) SELECT id, batch, random() FROM rollouts WHERE id = NEW.rollout_id AND NOT EXISTS (SELECT 1 FROM verdicts WHERE rollout_id = NEW.rollout_id AND NOT provisional) ON CONFLICT (rollout_id) DO UPDATE SET change = excluded.change, batch = excluded.batch; END;
CREATE TRIGGER rollout_added AFTER INSERT ON rollouts BEGIN INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) SELECT '', CAST(c.started_at / 60 AS INTEGER), coalesce(c.answered_model, c.model, ''), c.upstream, c.role, coalesce(c.subcategory, ''), CASE WHEN c.ending IS NULL OR c.pending IS TRUE OR c.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN c.subcategory IS NOT NULL AND (c.status IS NULL OR c.status >= 400) THEN 'unused' WHEN (CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) IS NOT NULL THEN 'stated' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL OR (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, -(1), -(CASE WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)) IS NULL THEN 0 ELSE 1 END), -(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END), 0)), -(coalesce((CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), 0)), -(coalesce(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)), 0)), -(coalesce((CASE WHEN c.cached_input_tokens BETWEEN 0 AND 1000000000 THEN c.cached_input_tokens END), 0)), -(coalesce((CASE WHEN c.cache_write_tokens BETWEEN 0 AND 1000000000 THEN c.cache_write_tokens END), 0)), -(CASE WHEN (CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) IS NULL THEN 0 ELSE 1 END), -(coalesce(round((CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) * 1073741824.0) / 1073741824.0, 0)), -(coalesce(round((CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) * 16777216.0) / 16777216.0, 0)) FROM exchanges AS c WHERE c.rollout_id = NEW.id AND '' <> coalesce(NEW.batch, '') ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) SELECT coalesce(NEW.batch, ''), CAST(c.started_at / 60 AS INTEGER), coalesce(c.answered_model, c.model, ''), c.upstream, c.role, coalesce(c.subcategory, ''), CASE WHEN c.ending IS NULL OR c.pending IS TRUE OR c.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN c.subcategory IS NOT NULL AND (c.status IS NULL OR c.status >= 400) THEN 'unused' WHEN (CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) IS NOT NULL THEN 'stated' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL OR (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, 1, CASE WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)) IS NULL THEN 0 ELSE 1 END, coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END), 0), coalesce((CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), 0), coalesce(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)), 0), coalesce((CASE WHEN c.cached_input_tokens BETWEEN 0 AND 1000000000 THEN c.cached_input_tokens END), 0), coalesce((CASE WHEN c.cache_write_tokens BETWEEN 0 AND 1000000000 THEN c.cache_write_tokens END), 0), CASE WHEN (CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) IS NULL THEN 0 ELSE 1 END, coalesce(round((CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) * 1073741824.0) / 1073741824.0, 0), coalesce(round((CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) * 16777216.0) / 16777216.0, 0) FROM exchanges AS c WHERE c.rollout_id = NEW.id AND '' <> coalesce(NEW.batch, '') ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO unjudged (rollout_id, batch, change) SELECT id, batch, random() FROM rollouts WHERE id = NEW.id AND NOT EXISTS (SELECT 1 FROM verdicts WHERE rollout_id = NEW.id AND NOT provisional) ON CONFLICT (rollout_id) DO UPDATE SET change = excluded.change, batch = excluded.batch; END;
CREATE TRIGGER rollout_changed AFTER UPDATE OF batch, task, repeat, attempt, model, upstream, usage_channel, gaps, skipped, outcome, fallbacks, closed_at, agents, validity, max_steps ON rollouts BEGIN INSERT INTO unjudged (rollout_id, batch, change) SELECT id, batch, random() FROM rollouts WHERE id = NEW.id AND NOT EXISTS (SELECT 1 FROM verdicts WHERE rollout_id = NEW.id AND NOT provisional) ON CONFLICT (rollout_id) DO UPDATE SET change = excluded.change, batch = excluded.batch; END;
CREATE TRIGGER rollout_moved AFTER UPDATE OF batch ON rollouts WHEN OLD.batch IS NOT NEW.batch BEGIN INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) SELECT coalesce(OLD.batch, ''), CAST(c.started_at / 60 AS INTEGER), coalesce(c.answered_model, c.model, ''), c.upstream, c.role, coalesce(c.subcategory, ''), CASE WHEN c.ending IS NULL OR c.pending IS TRUE OR c.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN c.subcategory IS NOT NULL AND (c.status IS NULL OR c.status >= 400) THEN 'unused' WHEN (CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) IS NOT NULL THEN 'stated' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL OR (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, -(1), -(CASE WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)) IS NULL THEN 0 ELSE 1 END), -(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END), 0)), -(coalesce((CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), 0)), -(coalesce(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)), 0)), -(coalesce((CASE WHEN c.cached_input_tokens BETWEEN 0 AND 1000000000 THEN c.cached_input_tokens END), 0)), -(coalesce((CASE WHEN c.cache_write_tokens BETWEEN 0 AND 1000000000 THEN c.cache_write_tokens END), 0)), -(CASE WHEN (CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) IS NULL THEN 0 ELSE 1 END), -(coalesce(round((CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) * 1073741824.0) / 1073741824.0, 0)), -(coalesce(round((CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) * 16777216.0) / 16777216.0, 0)) FROM exchanges AS c WHERE c.rollout_id = NEW.id AND coalesce(OLD.batch, '') <> coalesce(NEW.batch, '') ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) SELECT coalesce(NEW.batch, ''), CAST(c.started_at / 60 AS INTEGER), coalesce(c.answered_model, c.model, ''), c.upstream, c.role, coalesce(c.subcategory, ''), CASE WHEN c.ending IS NULL OR c.pending IS TRUE OR c.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN c.subcategory IS NOT NULL AND (c.status IS NULL OR c.status >= 400) THEN 'unused' WHEN (CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) IS NOT NULL THEN 'stated' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL OR (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, 1, CASE WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)) IS NULL THEN 0 ELSE 1 END, coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END), 0), coalesce((CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), 0), coalesce(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)), 0), coalesce((CASE WHEN c.cached_input_tokens BETWEEN 0 AND 1000000000 THEN c.cached_input_tokens END), 0), coalesce((CASE WHEN c.cache_write_tokens BETWEEN 0 AND 1000000000 THEN c.cache_write_tokens END), 0), CASE WHEN (CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) IS NULL THEN 0 ELSE 1 END, coalesce(round((CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) * 1073741824.0) / 1073741824.0, 0), coalesce(round((CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) * 16777216.0) / 16777216.0, 0) FROM exchanges AS c WHERE c.rollout_id = NEW.id AND coalesce(OLD.batch, '') <> coalesce(NEW.batch, '') ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; END;
CREATE TRIGGER rollout_removed AFTER DELETE ON rollouts BEGIN INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) SELECT coalesce(OLD.batch, ''), CAST(c.started_at / 60 AS INTEGER), coalesce(c.answered_model, c.model, ''), c.upstream, c.role, coalesce(c.subcategory, ''), CASE WHEN c.ending IS NULL OR c.pending IS TRUE OR c.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN c.subcategory IS NOT NULL AND (c.status IS NULL OR c.status >= 400) THEN 'unused' WHEN (CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) IS NOT NULL THEN 'stated' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL OR (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, -(1), -(CASE WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 0 ELSE 1 END), -(CASE WHEN coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)) IS NULL THEN 0 ELSE 1 END), -(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END), 0)), -(coalesce((CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), 0)), -(coalesce(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)), 0)), -(coalesce((CASE WHEN c.cached_input_tokens BETWEEN 0 AND 1000000000 THEN c.cached_input_tokens END), 0)), -(coalesce((CASE WHEN c.cache_write_tokens BETWEEN 0 AND 1000000000 THEN c.cache_write_tokens END), 0)), -(CASE WHEN (CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) IS NULL THEN 0 ELSE 1 END), -(coalesce(round((CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) * 1073741824.0) / 1073741824.0, 0)), -(coalesce(round((CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) * 16777216.0) / 16777216.0, 0)) FROM exchanges AS c WHERE c.rollout_id = OLD.id AND coalesce(OLD.batch, '') <> '' ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; INSERT INTO call_usage (batch, minute, model, upstream, role, cause, basis, slot, calls, input_known_calls, output_known_calls, tokens_known_calls, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, seconds_known_calls, cost_usd, seconds) SELECT '', CAST(c.started_at / 60 AS INTEGER), coalesce(c.answered_model, c.model, ''), c.upstream, c.role, coalesce(c.subcategory, ''), CASE WHEN c.ending IS NULL OR c.pending IS TRUE OR c.kind NOT IN ('inference', 'continuation') THEN 'none' WHEN c.subcategory IS NOT NULL AND (c.status IS NULL OR c.status >= 400) THEN 'unused' WHEN (CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) IS NOT NULL THEN 'stated' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL OR (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 'unknown' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 524288 THEN '524288' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 512000 THEN '512000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 272000 THEN '272000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 256000 THEN '256000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 200000 THEN '200000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 199999 THEN '199999' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 128000 THEN '128000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 100000 THEN '100000' WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) > 32000 THEN '32000' ELSE '0' END, 0, 1, CASE WHEN (CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END) IS NULL THEN 0 ELSE 1 END, CASE WHEN coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)) IS NULL THEN 0 ELSE 1 END, coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END), 0), coalesce((CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), 0), coalesce(coalesce((CASE WHEN c.input_total BETWEEN 0 AND 1000000000 THEN c.input_total END) + (CASE WHEN c.output_total BETWEEN 0 AND 1000000000 THEN c.output_total END), (CASE WHEN c.total_tokens BETWEEN 0 AND 1000000000 THEN c.total_tokens END)), 0), coalesce((CASE WHEN c.cached_input_tokens BETWEEN 0 AND 1000000000 THEN c.cached_input_tokens END), 0), coalesce((CASE WHEN c.cache_write_tokens BETWEEN 0 AND 1000000000 THEN c.cache_write_tokens END), 0), CASE WHEN (CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) IS NULL THEN 0 ELSE 1 END, coalesce(round((CASE WHEN c.cost_usd BETWEEN 0 AND 1000000 THEN c.cost_usd END) * 1073741824.0) / 1073741824.0, 0), coalesce(round((CASE WHEN c.duration_s BETWEEN 0 AND 1000000000 THEN c.duration_s END) * 16777216.0) / 16777216.0, 0) FROM exchanges AS c WHERE c.rollout_id = OLD.id AND coalesce(OLD.batch, '') <> '' ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET calls = call_usage.calls + excluded.calls, input_known_calls = call_usage.input_known_calls + excluded.input_known_calls, output_known_calls = call_usage.output_known_calls + excluded.output_known_calls, tokens_known_calls = call_usage.tokens_known_calls + excluded.tokens_known_calls, input_tokens = call_usage.input_tokens + excluded.input_tokens, output_tokens = call_usage.output_tokens + excluded.output_tokens, total_tokens = call_usage.total_tokens + excluded.total_tokens, cached_input_tokens = call_usage.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens = call_usage.cache_write_tokens + excluded.cache_write_tokens, seconds_known_calls = call_usage.seconds_known_calls + excluded.seconds_known_calls, cost_usd = call_usage.cost_usd + excluded.cost_usd, seconds = call_usage.seconds + excluded.seconds; DELETE FROM unjudged WHERE rollout_id = OLD.id; END;
COMMIT;
