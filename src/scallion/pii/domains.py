"""The endings of host names that make a URL of a name without a scheme."""

GENERIC = """
    com org net edu gov mil int info biz name pro aero coop museum jobs mobi travel tel asia cat post app dev
    page cloud online site store shop tech blog xyz club live news media agency design digital email world
    life today top vip work works space website fun icu link wiki zone group team tools systems solutions
    services software network support studio academy school university education health care center company
    business finance money bank capital fund market marketing social chat video photo photos pictures film
    music games game art style fashion house homes land estate city town global international ventures
    partners consulting training codes computer domains hosting host server directory exchange trade trading
    cash credit events tickets tours holiday restaurant cafe bar pub pizza kitchen recipes fit run bike cars
    auto taxi church community foundation charity ngo gives london paris berlin nyc tokyo amsterdam wien
    hamburg koeln bayern swiss scot wales irish istanbul moscow africa lat google youtube amazon aws azure
    microsoft apple ninja guru rocks expert wtf lol ink press review reviews report science legal law
    engineering energy construction builders plus one bet poker casino dating singles love date gift gifts
    toys baby dog pet farm garden green eco bio organic beer wine coffee tips guide how help faq direct
    express delivery онлайн сайт рф рус укр бел 中国 中國 香港 台湾 台灣 公司 网络 한국 भारत இந்தியா みんな
""".split()

COUNTRIES = """
    ac ad ae af ag ai al am ao aq ar as at au aw ax az ba bb bd be bf bg bh bi bj bm bn bo br bs bt bw by bz ca cd cf cg
    ch ci ck cl cm cn co cr cu cv cw cx cy cz de dj dk dm do dz ec ee eg er es et eu fi fj fk fm fo fr ga gd ge gf gg gh
    gi gl gm gn gp gq gr gt gu gw gy hk hm hn hr ht hu id ie il im in io iq ir is it je jm jo jp ke kg kh ki km kn kp kr
    kw ky kz la lb lc li lk lr ls lt lu lv ly ma mc me mg mh mm mn mo mp mq mr mt mu mv mw mx my mz na nc ne nf ng
    ni nl no np nr nu nz om pa pe pf pg ph pk pm pn pr pt pw qa re ro ru rw sa sb sc sd se sg si sk sl sm sn sr ss
    st su sv sx sy sz tc td tf tg th tj tk tl tm tn to tr tt tv tw tz ua ug uk us uy uz va vc ve vg vi vn vu wf ws ye yt
    za zm zw
""".split()
"""Without those that are better known as endings of files: cc, md, mk, ml, pl, ps, py, rs, sh, so."""

ENDINGS = frozenset(GENERIC) | frozenset(COUNTRIES)
