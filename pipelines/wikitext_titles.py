"""What a wiki link points to: an article's title in its normal form, or something that is no article.

Names of namespaces and languages are those of MediaWiki; a dump's own header adds the names its wiki uses.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

_FILES = """
file image media datei bild fichier archivo imagen ficheiro arquivo imagem bestand afbeelding
plik grafika файл изображение файлове зображення слика датотека fil kuva tiedosto fájl kép soubor
obrázok súbor fișier imagine dosya resim berkas gambar tập_tin hình 檔案 文件 图像 圖像 ファイル
画像 파일 그림 ไฟล์ ภาพ ملف صورة پرونده تصویر קובץ תמונה αρχείο εικόνα चित्र fitxer imatge fitxategi
irudi slika vaizdas attēls fails pilt mynd immagine ფაილი სურათი պատկեր dosiero
"""
_CATEGORIES = """
category kategorie catégorie categoría categoria categorie kategoria kategori kategória kategoriya
kategorio категория категорія категорија kategorija kategoría luokka thể_loại 分类 分類
カテゴリ 분류 หมวดหมู่ تصنيف رده קטגוריה κατηγορία श्रेणी categorìa kategooria flokkur კატეგორია
կատեգորիա
"""
_OTHERS = """
talk user wikipedia project help template module portal draft book special mediawiki timedtext topic
wp wt user_talk wikipedia_talk file_talk mediawiki_talk template_talk help_talk category_talk
portal_talk module_talk wikt wiktionary wikiquote wikisource wikibooks wikinews wikiversity
wikivoyage wikispecies wikidata commons meta mw s q b n v d c m voy species incubator phab bugzilla
google doi pmid iarchive hdl orcid
"""
_LANGUAGES = """
aa ab ace ady af ak als am an ang ar arc ary arz as ast atj av avk awa ay az azb ba ban bar bat-smg
bcl be be-tarask be-x-old bg bh bi bjn bm bn bo bpy br bs bug bxr ca cbk-zam cdo ce ceb ch cho chr
chy ckb co cr crh cs csb cu cv cy da de din diq dsb dty dv dz ee el eml en eo es et eu ext fa ff fi
fiu-vro fj fo fr frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got gu gv ha hak haw he hi hif
ho hr hsb ht hu hy hyw hz ia id ie ig ii ik ilo inh io is it iu ja jam jbo jv ka kaa kab kbd kbp kg
ki kj kk kl km kn ko koi kr krc ks ksh ku kv kw ky la lad lb lbe lez lfn lg li lij lld lmo ln lo lrc
lt ltg lv mad mai map-bms mdf mg mh mhr mi min mk ml mn mnw mo mr mrj ms mt mus mwl my myv mzn na
nah nap nds nds-nl ne new ng nia nl nn no nb nov nqo nrm nso nv ny oc olo om or os pa pag pam pap
pcd pdc pfl pi pih pl pms pnb pnt ps pt qu rm rmy rn ro roa-rup roa-tara ru rue rw sa sah sat sc scn
sco sd se sg sh shn si simple sk skr sl sm smn sn so sq sr srn ss st stq su sv sw szl szy ta tcy te
tet tg th ti tk tl tn to tpi tr trv ts tt tum tw ty tyv udm ug uk ur uz ve vec vep vi vls vo wa war
wo wuu xal xh xmf yi yo za zea zh zh-classical zh-min-nan zh-yue zu
"""

_PREFIX = re.compile(r"\s*(:?)\s*([^:\[\]|{}<>\n]{1,40}):")
_SPACES = re.compile(r"[_\s]+")
_SLOW = re.compile(r"[:#%&_]|\s\s")

Kind = Literal["article", "hidden", "shown"]


def _names(listed: str) -> frozenset[str]:
    return frozenset(name.replace("_", " ").strip() for name in listed.casefold().split())


@dataclass(frozen=True)
class Namespaces:
    """Case-folded prefixes before a colon: those that show nothing, those that are no article, and language
    codes.
    """

    files: frozenset[str] = _names(_FILES)
    categories: frozenset[str] = _names(_CATEGORIES)
    others: frozenset[str] = _names(_OTHERS)
    languages: frozenset[str] = _names(_LANGUAGES)

    def with_names(self, named: Iterable[tuple[int, str]]) -> Namespaces:
        """These and the (number, name) pairs of a dump's header; 6 is files, -2 media, 14 categories, 0
        articles.
        """
        pairs = [(number, name.casefold().replace("_", " ")) for number, name in named if name]
        return Namespaces(
            self.files | {name for number, name in pairs if number in (6, -2)},
            self.categories | {name for number, name in pairs if number == 14},
            self.others | {name for number, name in pairs if number not in (0, 6, -2, 14)},
            self.languages,
        )

    def place(self, target: str) -> tuple[Kind, str]:
        """Where a link goes: ("article", title), ("shown", "") if it shows its text but is no link to an
        article, ("hidden", "") if it shows nothing (files, categories, other languages of the same page).
        """
        if _SLOW.search(target) is None:
            title = target.strip()
            return ("article", _first_upper(title)) if title else ("shown", "")
        if "&" in target:
            target = html.unescape(target)
        if (prefix := _PREFIX.match(target)) is not None:
            colon, name = prefix.group(1), _SPACES.sub(" ", prefix.group(2)).strip().casefold()
            hidden = name in self.files or name in self.categories or name in self.languages
            if hidden and not colon:
                return "hidden", ""
            if hidden or name in self.others:
                return "shown", ""
        title = normal_title(target)
        return ("article", title) if title else ("shown", "")


def normal_title(target: str) -> str:
    """A link's target as the title of its page: no fragment, spaces for underscores, first letter upper; ""
    if none is left.
    """
    target = target.partition("#")[0]
    if "%" in target:
        target = unquote(target, errors="replace")
    title = _SPACES.sub(" ", target).strip().removeprefix(":").strip()
    return _first_upper(title)


def _first_upper(title: str) -> str:
    upper = title[:1].upper()  # "ß" and ligatures become two letters, which no wiki does
    return upper + title[1:] if len(upper) == 1 else title
