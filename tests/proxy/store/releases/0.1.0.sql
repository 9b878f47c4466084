BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE breakers (
	batch VARCHAR(200) NOT NULL, 
	lane VARCHAR(300) NOT NULL, 
	state TEXT NOT NULL, 
	PRIMARY KEY (batch, lane)
)
 WITHOUT ROWID

;
INSERT INTO "breakers" VALUES('old','-/gpt-5/-','{"batch":"old","canary":null,"fingerprint":"suspected:zero_signal","lane":"-/gpt-5/-","opened_at":null,"phase":"closed","retry_at":null,"streak":1,"threshold":5,"tripped_by":["silent"]}');
INSERT INTO "breakers" VALUES('old','openai/gpt-5/key-8df996ef','{"batch":"old","canary":null,"fingerprint":"auth:401","lane":"openai/gpt-5/key-8df996ef","opened_at":null,"phase":"closed","retry_at":null,"streak":2,"threshold":5,"tripped_by":["dead","passed-dead"]}');
CREATE TABLE events (
	id INTEGER NOT NULL, 
	kind VARCHAR(24) NOT NULL, 
	rollout_id VARCHAR(200), 
	batch VARCHAR(200), 
	at FLOAT NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "events" VALUES(1,'verdict_given','solved','old',1.79588194702489876747e+09,'{"fingerprint":null,"health":"healthy","subcategory":null}');
INSERT INTO "events" VALUES(2,'verdict_given','zero','old',1.79588194716155719757e+09,'{"fingerprint":null,"health":"healthy","subcategory":null}');
INSERT INTO "events" VALUES(3,'exchange_failed','dead',NULL,1.79588194726695108416e+09,'{"exchange":"661585985ad2526ca94d0623","status":401,"subcategory":"auth","transient":false}');
INSERT INTO "events" VALUES(4,'exchange_failed','dead',NULL,1.79588194730061197277e+09,'{"exchange":"661585986fdd79f231b1fd25","status":401,"subcategory":"auth","transient":false}');
INSERT INTO "events" VALUES(5,'verdict_given','dead','old',1.79588194730589365954e+09,'{"fingerprint":"auth:401","health":"api_error","subcategory":"auth"}');
INSERT INTO "events" VALUES(6,'exchange_failed','passed-dead',NULL,1.79588194734986186023e+09,'{"exchange":"66158598787d2e519df70cc7","status":401,"subcategory":"auth","transient":false}');
INSERT INTO "events" VALUES(7,'exchange_failed','passed-dead',NULL,1.79588194735377717015e+09,'{"exchange":"661585987c94990f10bd76c8","status":401,"subcategory":"auth","transient":false}');
INSERT INTO "events" VALUES(8,'verdict_given','passed-dead','old',1.79588194735770702355e+09,'{"fingerprint":"auth:401","health":"api_error","subcategory":"auth"}');
INSERT INTO "events" VALUES(9,'verdict_given','silent','old',1.79588194737051987646e+09,'{"fingerprint":"suspected:zero_signal","health":"suspected_api_error","subcategory":null}');
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
	PRIMARY KEY (rollout_id, id)
)
 WITHOUT ROWID

;
INSERT INTO "exchanges" VALUES('dead','661585985ad2526ca94d0623',1.79588194721310234073e+09,'inference','POST','agent','openai','openai.chat','gpt-5',NULL,401,'complete',0,1.14568349999899510294e-02,NULL,5.38487160001750453375e-02,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,0,0,0,'auth',NULL,0,'openai.key','invalid_api_key',NULL,NULL,68,128,'a4e69f6b3b645cc7',NULL,'path','key-8df996ef',0,NULL);
INSERT INTO "exchanges" VALUES('dead','661585986fdd79f231b1fd25',1.79588194729929780959e+09,'inference','POST','agent','openai','openai.chat','gpt-5',NULL,401,'complete',0,1.27992300031110062263e-03,NULL,1.3141140002517204266e-03,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,0,0,0,'auth',NULL,0,'openai.key','invalid_api_key',NULL,NULL,68,128,'a4e69f6b3b645cc7',NULL,'path','key-8df996ef',0,NULL);
INSERT INTO "exchanges" VALUES('passed-dead','66158598787d2e519df70cc7',1.79588194733461856836e+09,'inference','POST','agent','openai','openai.chat','gpt-5',NULL,401,'complete',0,1.51837349999368598219e-02,NULL,1.52431839997007045894e-02,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,0,0,0,'auth',NULL,0,'openai.key','invalid_api_key',NULL,NULL,68,128,'a4e69f6b3b645cc7',NULL,'path','key-8df996ef',0,NULL);
INSERT INTO "exchanges" VALUES('passed-dead','661585987c94990f10bd76c8',1795881947.35138,'inference','POST','agent','openai','openai.chat','gpt-5',NULL,401,'complete',0,2.35709500020675477571e-03,NULL,2.39701400005287723615e-03,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent',NULL,NULL,0,0,0,'auth',NULL,0,'openai.key','invalid_api_key',NULL,NULL,68,128,'a4e69f6b3b645cc7',NULL,'path','key-8df996ef',0,NULL);
INSERT INTO "exchanges" VALUES('running','661585988388dd362142dab0',1.79588194737986278528e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5',200,'complete',0,1.13274399973306572064e-03,NULL,1.16081599981043837033e-03,12,7,NULL,NULL,NULL,19,12,7,'provider',NULL,'stop',0,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,68,283,NULL,NULL,'path','key-65bf49c0',0,NULL);
INSERT INTO "exchanges" VALUES('solved','6615859742f65207f107b784',1.79588194606679749489e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5',200,'complete',0,3.97055400026147253811e-03,NULL,4.00813900023422320373e-03,12,7,NULL,NULL,NULL,19,12,7,'provider',NULL,'stop',0,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,68,283,NULL,NULL,'path','key-65bf49c0',0,NULL);
INSERT INTO "exchanges" VALUES('solved','6615859745c76bd57d3347a4',1.79588194607833456992e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5',200,'complete',0,1.20773600019674631766e-03,NULL,1.23685900007330928929e-03,12,7,NULL,NULL,NULL,19,12,7,'provider',NULL,'stop',0,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,68,283,NULL,NULL,'path','key-65bf49c0',0,NULL);
INSERT INTO "exchanges" VALUES('zero','6615859834d1ed16f5390acb',1.79588194705744957921e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5',200,'complete',0,1.84973129998979857191e-02,NULL,4.10357939999812515452e-02,12,7,NULL,NULL,NULL,19,12,7,'provider',NULL,'stop',0,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,68,283,NULL,NULL,'path','key-65bf49c0',0,NULL);
INSERT INTO "exchanges" VALUES('zero','661585983fcb9569e03d6699',1.79588194710240221024e+09,'inference','POST','agent','openai','openai.chat','gpt-5','gpt-5',200,'complete',0,1.0097310000674042385e-03,NULL,1.55470099980448139831e-03,12,7,NULL,NULL,NULL,19,12,7,'provider',NULL,'stop',0,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,68,283,NULL,NULL,'path','key-65bf49c0',0,NULL);
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
	PRIMARY KEY (id)
);
INSERT INTO "rollouts" VALUES('solved','old','solved',0,'gpt-5',NULL,'proxy',NULL,1,1.79588194605710172648e+09,0,NULL,'{"error":null,"eval":null,"export_error":null,"prompts_executed":1,"rewards":{"reward":1.0},"status":"success","termination_reason":null,"tool_calls":null,"total_tokens":null,"verifier_error":null}',1.79588194608120465273e+09,NULL,NULL,0);
INSERT INTO "rollouts" VALUES('zero','old','zero',0,'gpt-5',NULL,'proxy',NULL,1,1.7958819470480742455e+09,0,NULL,'{"error":null,"eval":null,"export_error":null,"prompts_executed":1,"rewards":{"reward":0.0},"status":"success","termination_reason":null,"tool_calls":null,"total_tokens":null,"verifier_error":null}',1.79588194710661292071e+09,NULL,NULL,0);
INSERT INTO "rollouts" VALUES('dead','old','dead',0,'gpt-5',NULL,'proxy',NULL,1,1.79588194721114706997e+09,0,NULL,'{"error":null,"eval":null,"export_error":null,"prompts_executed":1,"rewards":{"reward":0.0},"status":"success","termination_reason":null,"tool_calls":null,"total_tokens":null,"verifier_error":null}',1.79588194730225324626e+09,NULL,NULL,0);
INSERT INTO "rollouts" VALUES('passed-dead','old','passed-dead',0,'gpt-5',NULL,'proxy',NULL,1,1.79588194733272480969e+09,0,NULL,'{"error":null,"eval":null,"export_error":null,"prompts_executed":1,"rewards":{"reward":1.0},"status":"success","termination_reason":null,"tool_calls":null,"total_tokens":null,"verifier_error":null}',1.79588194735551953317e+09,NULL,NULL,0);
INSERT INTO "rollouts" VALUES('silent','old','silent',0,'gpt-5',NULL,'proxy',NULL,1,1.7958819473668150902e+09,0,NULL,'{"error":null,"eval":null,"export_error":null,"prompts_executed":1,"rewards":{"reward":1.0},"status":"success","termination_reason":null,"tool_calls":null,"total_tokens":null,"verifier_error":null}',1.79588194736899423595e+09,NULL,NULL,0);
INSERT INTO "rollouts" VALUES('running','old','running',NULL,'gpt-5',NULL,'proxy',NULL,1,1.79588194737788486485e+09,0,NULL,NULL,NULL,NULL,NULL,0);
CREATE TABLE server (
	name VARCHAR(40) NOT NULL, 
	value VARCHAR(200) NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "server" VALUES('salt','73616C7400000000000000000000000000000000000000000000000000000000');
INSERT INTO "server" VALUES('keyring','6B657972696E6700000000000000000000000000000000000000000000000000');
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
	PRIMARY KEY (rollout_id)
);
INSERT INTO "verdicts" VALUES('solved','old','healthy',NULL,NULL,NULL,'openai/gpt-5/key-65bf49c0',0,'yes',1.0,24,14,38,0.00017,'genai-prices 0.2.3',1.7958819470453958511e+09,2,'{"batch":"old","cause":null,"classifier":"1","cost_usd":0.00017,"dominant_status":null,"doomed":false,"error":null,"error_category":null,"evidence":["6615859745c76bd57d3347a4"],"failed_requests":0,"fingerprint":null,"health":"healthy","input_tokens":24,"lane":"openai/gpt-5/key-65bf49c0","layer":null,"lost_s":0.0,"output_tokens":14,"policy":"evidence","provisional":false,"recovered_requests":0,"retry":{"after_s":null,"eligible":false,"reason":"nothing failed"},"rollout_id":"solved","rule":"healthy","scoreable":"yes","status_counts":{},"subcategory":null,"tool_calls":0,"total_requests":2,"total_tokens":38,"transient":null,"warnings":[]}','{"api_error_info":null,"attempt":0,"batch":"old","cost_usd":0.00017,"error":null,"error_category":null,"eval":null,"export_error":null,"failed_requests":0,"fingerprint":null,"health":"healthy","input_tokens":24,"model":"gpt-5","not_judged_info":null,"output_tokens":14,"prompts_executed":1,"provisional":false,"rewards":{"reward":1.0},"rollout_id":"solved","scoreable":"yes","status":"success","subcategory":null,"suspected_api_error_info":null,"task":"solved","termination_reason":null,"tool_calls":0,"total_requests":2,"total_tokens":38,"transient":null,"undecided_info":null,"verifier_error":null,"warnings":[]}');
INSERT INTO "verdicts" VALUES('zero','old','healthy',NULL,NULL,NULL,'openai/gpt-5/key-65bf49c0',0,'yes',0.0,24,14,38,0.00017,'genai-prices 0.2.3',1.79588194720447707174e+09,2,'{"batch":"old","cause":null,"classifier":"1","cost_usd":0.00017,"dominant_status":null,"doomed":false,"error":null,"error_category":null,"evidence":["661585983fcb9569e03d6699"],"failed_requests":0,"fingerprint":null,"health":"healthy","input_tokens":24,"lane":"openai/gpt-5/key-65bf49c0","layer":null,"lost_s":0.0,"output_tokens":14,"policy":"evidence","provisional":false,"recovered_requests":0,"retry":{"after_s":null,"eligible":false,"reason":"nothing failed"},"rollout_id":"zero","rule":"healthy","scoreable":"yes","status_counts":{},"subcategory":null,"tool_calls":0,"total_requests":2,"total_tokens":38,"transient":null,"warnings":[]}','{"api_error_info":null,"attempt":0,"batch":"old","cost_usd":0.00017,"error":null,"error_category":null,"eval":null,"export_error":null,"failed_requests":0,"fingerprint":null,"health":"healthy","input_tokens":24,"model":"gpt-5","not_judged_info":null,"output_tokens":14,"prompts_executed":1,"provisional":false,"rewards":{"reward":0.0},"rollout_id":"zero","scoreable":"yes","status":"success","subcategory":null,"suspected_api_error_info":null,"task":"zero","termination_reason":null,"tool_calls":0,"total_requests":2,"total_tokens":38,"transient":null,"undecided_info":null,"verifier_error":null,"warnings":[]}');
INSERT INTO "verdicts" VALUES('dead','old','api_error','auth','auth:401','v1:auth:openai:401:invalid_api_key','openai/gpt-5/key-8df996ef',0,'no',NULL,0,0,0,NULL,NULL,1.79588194733086442943e+09,2,'{"batch":"old","cause":"v1:auth:openai:401:invalid_api_key","classifier":"1","cost_usd":null,"dominant_status":401,"doomed":true,"error":"api_error [auth, permanent]: HTTP 401 on 2 of 2 calls","error_category":"api_error","evidence":["661585985ad2526ca94d0623","661585986fdd79f231b1fd25"],"failed_requests":2,"fingerprint":"auth:401","health":"api_error","input_tokens":0,"lane":"openai/gpt-5/key-8df996ef","layer":"proxy_proven","lost_s":0.08751,"output_tokens":0,"policy":"evidence","provisional":false,"recovered_requests":0,"retry":{"after_s":null,"eligible":false,"reason":"permanent until someone fixes the key"},"rollout_id":"dead","rule":"all_failed","scoreable":"no","status_counts":{"401":2},"subcategory":"auth","tool_calls":0,"total_requests":2,"total_tokens":0,"transient":false,"warnings":[]}','{"api_error_info":{"cause":"v1:auth:openai:401:invalid_api_key","detail":"HTTP 401 on 2 of 2 calls","dominant_status":401,"evidence":["661585985ad2526ca94d0623","661585986fdd79f231b1fd25"],"failed_requests":2,"fingerprint":"auth:401","lane":"openai/gpt-5/key-8df996ef","lost_s":0.08751,"recovered_requests":0,"rule":"all_failed","status_counts":{"401":2},"subcategory":"auth","total_requests":2,"transient":false},"attempt":0,"batch":"old","cost_usd":null,"error":"api_error [auth, permanent]: HTTP 401 on 2 of 2 calls","error_category":"api_error","eval":null,"export_error":null,"failed_requests":2,"fingerprint":"auth:401","health":"api_error","input_tokens":0,"model":"gpt-5","not_judged_info":null,"output_tokens":0,"prompts_executed":1,"provisional":false,"rewards":null,"rollout_id":"dead","scoreable":"no","status":"success","subcategory":"auth","suspected_api_error_info":null,"task":"dead","termination_reason":null,"tool_calls":0,"total_requests":2,"total_tokens":0,"transient":false,"undecided_info":null,"verifier_error":null,"warnings":[]}');
INSERT INTO "verdicts" VALUES('passed-dead','old','api_error','auth','auth:401','v1:auth:openai:401:invalid_api_key','openai/gpt-5/key-8df996ef',0,'no',NULL,0,0,0,NULL,NULL,1.79588194736114621164e+09,2,'{"batch":"old","cause":"v1:auth:openai:401:invalid_api_key","classifier":"1","cost_usd":null,"dominant_status":401,"doomed":true,"error":"api_error [auth, permanent]: HTTP 401 on 2 of 2 calls","error_category":"api_error","evidence":["66158598787d2e519df70cc7","661585987c94990f10bd76c8"],"failed_requests":2,"fingerprint":"auth:401","health":"api_error","input_tokens":0,"lane":"openai/gpt-5/key-8df996ef","layer":"proxy_proven","lost_s":0.019159,"output_tokens":0,"policy":"evidence","provisional":false,"recovered_requests":0,"retry":{"after_s":null,"eligible":false,"reason":"permanent until someone fixes the key"},"rollout_id":"passed-dead","rule":"all_failed","scoreable":"no","status_counts":{"401":2},"subcategory":"auth","tool_calls":0,"total_requests":2,"total_tokens":0,"transient":false,"warnings":[]}','{"api_error_info":{"cause":"v1:auth:openai:401:invalid_api_key","detail":"HTTP 401 on 2 of 2 calls","dominant_status":401,"evidence":["66158598787d2e519df70cc7","661585987c94990f10bd76c8"],"failed_requests":2,"fingerprint":"auth:401","lane":"openai/gpt-5/key-8df996ef","lost_s":0.019159,"recovered_requests":0,"rule":"all_failed","status_counts":{"401":2},"subcategory":"auth","total_requests":2,"transient":false},"attempt":0,"batch":"old","cost_usd":null,"error":"api_error [auth, permanent]: HTTP 401 on 2 of 2 calls","error_category":"api_error","eval":null,"export_error":null,"failed_requests":2,"fingerprint":"auth:401","health":"api_error","input_tokens":0,"model":"gpt-5","not_judged_info":null,"output_tokens":0,"prompts_executed":1,"provisional":false,"rewards":null,"rollout_id":"passed-dead","scoreable":"no","status":"success","subcategory":"auth","suspected_api_error_info":null,"task":"passed-dead","termination_reason":null,"tool_calls":0,"total_requests":2,"total_tokens":0,"transient":false,"undecided_info":null,"verifier_error":null,"warnings":[]}');
INSERT INTO "verdicts" VALUES('silent','old','suspected_api_error',NULL,'suspected:zero_signal',NULL,'-/gpt-5/-',0,'no',NULL,NULL,NULL,NULL,NULL,NULL,1.7958819473736665249e+09,0,'{"batch":"old","cause":null,"classifier":"1","cost_usd":null,"dominant_status":null,"doomed":false,"error":"suspected_api_error: a prompt was executed, yet no call, token or tool call was seen","error_category":"suspected_api_error","evidence":[],"failed_requests":0,"fingerprint":"suspected:zero_signal","health":"suspected_api_error","input_tokens":null,"lane":"-/gpt-5/-","layer":"zero_signal","lost_s":0.0,"output_tokens":null,"policy":"evidence","provisional":false,"recovered_requests":0,"retry":{"after_s":null,"eligible":false,"reason":"suspected, not proven: someone should look first"},"rollout_id":"silent","rule":"zero_signal","scoreable":"no","status_counts":{},"subcategory":null,"tool_calls":null,"total_requests":0,"total_tokens":null,"transient":null,"warnings":[]}','{"api_error_info":null,"attempt":0,"batch":"old","cost_usd":null,"error":"suspected_api_error: a prompt was executed, yet no call, token or tool call was seen","error_category":"suspected_api_error","eval":null,"export_error":null,"failed_requests":0,"fingerprint":"suspected:zero_signal","health":"suspected_api_error","input_tokens":null,"model":"gpt-5","not_judged_info":null,"output_tokens":null,"prompts_executed":1,"provisional":false,"rewards":null,"rollout_id":"silent","scoreable":"no","status":"success","subcategory":null,"suspected_api_error_info":{"detail":"a prompt was executed, yet no call, token or tool call was seen","evidence":[],"failed_requests":0,"fingerprint":"suspected:zero_signal","lane":"-/gpt-5/-","output_tokens":null,"rule":"zero_signal","tool_calls":null,"total_requests":0},"task":"silent","termination_reason":null,"tool_calls":null,"total_requests":0,"total_tokens":null,"transient":null,"undecided_info":null,"verifier_error":null,"warnings":[]}');
INSERT INTO "verdicts" VALUES('running','old','healthy',NULL,NULL,NULL,'openai/gpt-5/key-65bf49c0',1,'yes',NULL,12,7,19,8.5e-05,'genai-prices 0.2.3',1.79588194738661456107e+09,1,'{"batch":"old","cause":null,"classifier":"1","cost_usd":8.5e-05,"dominant_status":null,"doomed":false,"error":null,"error_category":null,"evidence":["661585988388dd362142dab0"],"failed_requests":0,"fingerprint":null,"health":"healthy","input_tokens":12,"lane":"openai/gpt-5/key-65bf49c0","layer":null,"lost_s":0.0,"output_tokens":7,"policy":"evidence","provisional":true,"recovered_requests":0,"retry":{"after_s":null,"eligible":false,"reason":"nothing failed"},"rollout_id":"running","rule":"healthy","scoreable":"yes","status_counts":{},"subcategory":null,"tool_calls":0,"total_requests":1,"total_tokens":19,"transient":null,"warnings":[]}',NULL);
CREATE TABLE workers (
	id VARCHAR(32) NOT NULL, 
	host VARCHAR(200) NOT NULL, 
	pid INTEGER NOT NULL, 
	seen_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE INDEX rollouts_task ON rollouts (task, created_at, id);
CREATE INDEX rollouts_created ON rollouts (created_at, id);
CREATE INDEX rollouts_batch ON rollouts (batch, created_at, id);
CREATE INDEX rollouts_drilled ON rollouts (id) WHERE fault IS NOT NULL;
CREATE INDEX exchanges_started ON exchanges (started_at);
CREATE INDEX open_calls_rollout ON open_calls (rollout_id);
CREATE INDEX open_calls_worker ON open_calls (worker);
CREATE INDEX verdicts_fingerprint ON verdicts (fingerprint);
CREATE INDEX verdicts_batch ON verdicts (batch, health);
CREATE INDEX events_at ON events (at);
COMMIT;
